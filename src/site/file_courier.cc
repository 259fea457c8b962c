#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/stable_hash.h"
#include "site/courier.h"
#include "site/hex.h"
#include "site/private_file.h"

namespace ronde::site {

namespace {

constexpr Nanoseconds kBetweenLooks = 10 * kMillisecond;

std::string folder_in(const std::string& parent) { return parent + "/ronde-jobs-of-" + std::to_string(::geteuid()); }

/// Not open if there is none, or it is not this user's own and closed to others.
UniqueFd open_folder(const std::string& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  const bool is_private = folder.is_open() && ::fstat(folder.get(), &about) == 0 && about.st_uid == ::geteuid() &&
                          (about.st_mode & 077) == 0;
  return is_private ? std::move(folder) : UniqueFd();
}

/// Under a temporary name first, so that who reads it finds all of it; an earlier job's is replaced.
bool write_whole(const UniqueFd& folder, const std::string& name, const std::string& text) {
  const std::string temporary = name + "." + std::to_string(::getpid());
  ::unlinkat(folder.get(), temporary.c_str(), 0);
  const UniqueFd file(::openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const bool is_written = file.is_open() && ::fchmod(file.get(), 0600) == 0 &&
                          ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                          ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) == 0;
  if (!is_written) {
    const int failure = errno;
    ::unlinkat(folder.get(), temporary.c_str(), 0);
    errno = failure;
  }
  return is_written;
}

class FileCourier final : public Courier {
 public:
  FileCourier(const std::string& job, int rank, std::vector<std::string> parents)
      : name_(std::to_string(stable_hash(job))), job_(job), rank_(rank), parents_(std::move(parents)) {}

  ~FileCourier() override {
    // All have met; what a killed rank 0 leaves, the next job of the name replaces.
    if (written_in_.is_open() && maker_ == ::getpid()) {
      ::unlinkat(written_in_.get(), name_.c_str(), 0);
    }
  }

  Result<std::string> carry(const std::string& text, Nanoseconds limit) override {
    return rank_ == 0 ? write(text) : find(later(RealClock().now(), limit));
  }

  bool may_be_stale() const override { return true; }

 private:
  Result<std::string> write(const std::string& text) {
    for (const std::string& parent : parents_) {
      const std::string path = folder_in(parent);
      ::mkdir(path.c_str(), 0700);
      UniqueFd folder = open_folder(path);
      if (folder.is_open() && write_whole(folder, name_, to_hex_text(text))) {
        written_in_ = std::move(folder);
        maker_ = ::getpid();
        return text;
      }
    }
    return Status::error(Code::system_error, "no folder for the key of " + job_ + ": in none of " + list() +
                                                 " can a folder be made that only this user enters");
  }

  Result<std::string> find(Nanoseconds deadline) const {
    const RealClock clock;
    while (true) {
      for (const std::string& parent : parents_) {
        const UniqueFd folder = open_folder(folder_in(parent));
        const Result<std::string> text =
            folder.is_open() ? read_private_file(folder, name_) : Status::error(Code::system_error, "no folder");
        if (text && !text.value().empty()) {
          return from_hex_text(text.value());
        }
      }
      if (clock.now() >= deadline) {
        return Status::error(Code::timed_out,
                             "Timed out: rank 0 has not told where the ranks meet, in a folder of this user in " +
                                 list() +
                                 ". Has it been started on this host by the same user, does it see the same "
                                 "folders, and does it call init?");
      }
      ::poll(nullptr, 0, poll_timeout(std::min(deadline, clock.now() + kBetweenLooks), clock.now()));
    }
  }

  std::string list() const {
    std::string text;
    for (const std::string& parent : parents_) {
      text += (text.empty() ? "" : ", ") + parent;
    }
    return text;
  }

  const std::string name_;
  const std::string job_;
  const int rank_;
  const std::vector<std::string> parents_;
  UniqueFd written_in_;
  pid_t maker_ = 0;
};

}  // namespace

std::unique_ptr<Courier> file_courier(const std::string& job, int rank, std::vector<std::string> parents) {
  return std::make_unique<FileCourier>(job, rank, std::move(parents));
}

}  // namespace ronde::site
