// PMI-1 is lines of "name=value" words: https://www.mcs.anl.gov/papers/P1760.pdf is its history; what Hydra and Slurm
// understand of it is in MPICH's src/pmi and Slurm's src/plugins/mpi/pmi2.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "site/courier.h"
#include "site/hex.h"

namespace ronde::site {

namespace {

constexpr std::size_t kMostLineBytes = 4096;
constexpr Nanoseconds kFarewell = 2 * kSecond;

/// The value of a word of the line; empty if it has no such word.
std::string word_of(const std::string& line, std::string_view name) {
  const std::string key = std::string(name) + "=";
  std::size_t at = 0;
  while (at < line.size()) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    if (line.compare(at, key.size(), key) == 0) {
      return line.substr(at + key.size(), end - at - key.size());
    }
    at = end + 1;
  }
  return "";
}

class PmiCourier final : public Courier {
 public:
  PmiCourier(int fd, int rank, int size) : fd_(fd), rank_(rank), size_(size), maker_(::getpid()) {}
  ~PmiCourier() override {
    if (!carried_.empty() && ::getpid() == maker_) {
      // An MPI library may have said it already: then the server has closed. Until it has answered this process must
      // not be gone: Hydra 4 ends the job if it cannot write the answer.
      static_cast<void>(ask("finalize", "finalize_ack", RealClock().now() + kFarewell));
    }
  }

  Result<std::string> carry(const std::string& text, Nanoseconds limit) override {
    if (!carried_.empty()) {
      return carried_;  // the server is asked once only
    }
    const Nanoseconds deadline = later(RealClock().now(), limit);
    RONDE_RETURN_IF_ERROR(ask("init pmi_version=1 pmi_subversion=1", "response_to_init", deadline).status());
    RONDE_ASSIGN_OR_RETURN(const std::string named, ask("get_my_kvsname", "my_kvsname", deadline));
    const std::string key = " kvsname=" + word_of(named, "kvsname") + " key=ronde";
    if (rank_ == 0) {
      RONDE_RETURN_IF_ERROR(ask("put" + key + " value=" + to_hex_text(text), "put_result", deadline).status());
    }
    RONDE_RETURN_IF_ERROR(ask("barrier_in", "barrier_out", deadline).status());
    RONDE_ASSIGN_OR_RETURN(const std::string got, ask("get" + key, "get_result", deadline));
    RONDE_ASSIGN_OR_RETURN(carried_, from_hex_text(word_of(got, "value")));
    return carried_;
  }

  bool lasts() const override { return true; }

 private:
  /// Gives the answer's line.
  Result<std::string> ask(const std::string& command, std::string_view answer, Nanoseconds deadline) {
    const std::string line = "cmd=" + command + "\n";
    std::size_t sent = 0;
    while (sent < line.size()) {
      const ssize_t wrote = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (wrote < 0 && errno != EINTR) {
        return Status::from_errno("writing to the PMI server at PMI_FD", errno);
      }
      sent += wrote > 0 ? static_cast<std::size_t>(wrote) : 0;
    }
    RONDE_ASSIGN_OR_RETURN(std::string got, read_line(command, deadline));
    const std::string failure = word_of(got, "rc");
    if (word_of(got, "cmd") != answer || (!failure.empty() && failure != "0")) {
      return Status::error(Code::system_error, "the PMI server at PMI_FD answers '" + command.substr(0, 30) +
                                                   "' with '" + got.substr(0, 100) + "'");
    }
    return got;
  }

  Result<std::string> read_line(const std::string& command, Nanoseconds deadline) {
    const RealClock clock;
    while (true) {
      if (const std::size_t end = read_.find('\n'); end != std::string::npos) {
        std::string line = read_.substr(0, end);
        read_.erase(0, end + 1);
        return line;
      }
      pollfd entry{fd_, POLLIN, 0};
      if (::poll(&entry, 1, poll_timeout(deadline, clock.now())) == 0 && clock.now() >= deadline) {
        return Status::error(Code::timed_out, command == "barrier_in"
                                                  ? "Timed out: not all " + std::to_string(size_) +
                                                        " ranks have come to the barrier of PMI; does each call init?"
                                                  : "Timed out: the PMI server at PMI_FD does not answer");
      }
      char piece[1024];
      const ssize_t got = (entry.revents != 0) ? ::read(fd_, piece, sizeof piece) : -1;
      if (got == 0 || read_.size() > kMostLineBytes) {
        return Status::error(Code::system_error, "the PMI server at PMI_FD has closed the connection");
      }
      if (got < 0 && entry.revents != 0 && errno != EINTR && errno != EAGAIN) {
        return Status::from_errno("reading from the PMI server at PMI_FD", errno);
      }
      read_.append(piece, got > 0 ? static_cast<std::size_t>(got) : 0);
    }
  }

  const int fd_;
  const int rank_;
  const int size_;
  const pid_t maker_;
  std::string read_;  ///< what has come of the next line
  std::string carried_;
};

}  // namespace

std::unique_ptr<Courier> pmi_courier(int fd, int rank, int size) {
  return std::make_unique<PmiCourier>(fd, rank, size);
}

}  // namespace ronde::site
