#include "support/rank_parent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>

#include "base/clock.h"
#include "base/job_key.h"
#include "store/private_folder.h"
#include "store/store_server.h"

namespace ronde::test {

namespace {

struct Rank {
  pid_t pid = -1;
  UniqueFd socket;
  bool has_come = false;  ///< to the next meeting
  bool ended = false;
  bool met_limit = false;  ///< was ended at the limit
  int code = 0;            ///< exit code, or 128 + signal
  int expected_code = 0;
  std::string log;
};

class Parent {
 public:
  explicit Parent(const ParentOptions& options) : options_(options), ranks_(static_cast<std::size_t>(options.ranks)) {}

  int run() {
    if (!prepare()) {
      return 1;
    }
    for (int rank = 0; rank < options_.ranks; ++rank) {
      start(rank);
    }
    const Nanoseconds limit = RealClock().now() + from_seconds(options_.limit_s);
    while (!all_ended() && RealClock().now() < limit) {
      serve_messages();
      reap();
      let_go();
    }
    const bool in_time = all_ended();
    if (!in_time) {
      stop_all();
    }
    const bool right = judge(in_time);
    std::filesystem::remove_all(folder_->path());
    return right ? 0 : 1;
  }

 private:
  bool prepare() {
    Result<store::PrivateFolder> folder = store::PrivateFolder::create();
    Result<JobKey> key = make_job_key();
    if (!folder || !key) {
      std::cerr << folder.status().message() << key.status().message() << "\n";
      return false;
    }
    folder_.emplace(std::move(*folder));
    key_ = *key;
    Result<UniqueFd> listener = store::listen_unix(store_path());
    if (!listener) {
      std::cerr << listener.status().message() << "\n";
      return false;
    }
    auto server = store::StoreServer::start(std::move(*listener), key_);
    if (!server) {
      std::cerr << server.status().message() << "\n";
      return false;
    }
    server_ = std::move(*server);
    return true;
  }

  std::string store_path() const { return folder_->path() + "/store"; }

  void start(int number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    rank.log = folder_->path() + "/rank." + std::to_string(number) + ".log";
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      std::perror("socketpair");
      std::exit(1);
    }
    rank.socket.reset(pair[0]);
    const UniqueFd theirs(pair[1]);
    const RankProcess made(*this, number, theirs.get());
    rank.pid = ::fork();
    if (rank.pid == 0) {
      made.become();
    }
  }

  /// All that the child of a fork needs, made before it: this process has a thread (the store's), so the child may call
  /// only what is safe in a signal handler. A sanitizer's malloc would wait for ever for a lock that the thread held.
  class RankProcess {
   public:
    RankProcess(const Parent& parent, int number, int socket) : socket_(socket) {
      const std::string size = std::to_string(parent.options_.ranks);
      const std::string rank = std::to_string(number);
      log_ = parent.ranks_[static_cast<std::size_t>(number)].log;
      arguments_ = parent.options_.arguments;
      std::map<std::string, std::string> own = {
          {"RONDE_SIZE", size},
          {"RONDE_LOCAL_SIZE", size},
          {"RONDE_RANK", rank},
          {"RONDE_LOCAL_RANK", rank},
          {"RONDE_STORE", "unix:" + parent.store_path()},
          {"RONDE_KEY", to_hex(parent.key_)},
          {"XDG_RUNTIME_DIR", parent.folder_->path()},  // what is measured in a test stays in it
          {kSocketVariable, std::to_string(socket)},
          {kFolderVariable, parent.folder_->path()},
      };
      if (const char* const hosts = std::getenv(kHostsVariable)) {
        own["RONDE_HOST_ID"] = host_of(hosts, number);
      }
      for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string text = *variable;
        if (own.count(text.substr(0, text.find('='))) == 0) {
          environment_.push_back(text);
        }
      }
      for (const auto& [name, value] : own) {
        environment_.push_back(name + "=" + value);
      }
      argv_ = pointers(arguments_);
      envp_ = pointers(environment_);
    }

    [[noreturn]] void become() const {
      ::setpgid(0, 0);  // so that the watchdog ends what the rank has started too
      ::fcntl(socket_, F_SETFD, 0);
      const int log = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      ::dup2(log, STDOUT_FILENO);
      ::dup2(log, STDERR_FILENO);
      ::execve("/proc/self/exe", argv_.data(), envp_.data());
      ::_exit(127);
    }

   private:
    /// The rank's place in a list of hosts, "0,0,1", which is as long as the ranks are many.
    static std::string host_of(const std::string& hosts, int number) {
      std::istringstream list(hosts);
      std::string host;
      for (int at = 0; at <= number; ++at) {
        std::getline(list, host, ',');
      }
      return "test host " + host;
    }

    static std::vector<char*> pointers(std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (std::string& text : texts) {
        all.push_back(text.data());
      }
      all.push_back(nullptr);
      return all;
    }

    int socket_;
    std::string log_;
    std::vector<std::string> arguments_;
    std::vector<std::string> environment_;
    std::vector<char*> argv_;
    std::vector<char*> envp_;
  };

  bool all_ended() const {
    for (const Rank& rank : ranks_) {
      if (!rank.ended) {
        return false;
      }
    }
    return true;
  }

  void serve_messages() {
    std::vector<pollfd> fds;
    for (const Rank& rank : ranks_) {
      fds.push_back({rank.socket.get(), POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), 10);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      char kind = 0;
      if (fds[i].revents == 0 || ::recv(ranks_[i].socket.get(), &kind, 1, MSG_DONTWAIT) != 1) {
        if ((fds[i].revents & POLLHUP) != 0) {
          ranks_[i].socket.reset();  // else poll would not wait any more
        }
        continue;
      }
      if (kind == kMeet) {
        ranks_[i].has_come = true;
      } else if (kind == kExpectExit) {
        unsigned char code = 0;
        if (::recv(ranks_[i].socket.get(), &code, 1, 0) == 1) {
          ranks_[i].expected_code = code;
        }
      }
    }
  }

  void reap() {
    for (Rank& rank : ranks_) {
      int status = 0;
      if (!rank.ended && ::waitpid(rank.pid, &status, WNOHANG) == rank.pid) {
        rank.ended = true;
        rank.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      }
    }
  }

  /// Once every living rank has come, all may go on.
  void let_go() {
    for (const Rank& rank : ranks_) {
      if (!rank.ended && !rank.has_come) {
        return;
      }
    }
    for (Rank& rank : ranks_) {
      if (!rank.ended) {
        rank.has_come = false;
        ::send(rank.socket.get(), &kMeet, 1, MSG_NOSIGNAL);
      }
    }
  }

  /// First SIGABRT, which GoogleTest and sanitizers turn into stacks, then the whole group for good.
  void stop_all() {
    for (Rank& rank : ranks_) {
      if (!rank.ended) {
        rank.met_limit = true;
        ::kill(rank.pid, SIGABRT);
      }
    }
    const Nanoseconds grace = RealClock().now() + 2 * kSecond;
    while (!all_ended() && RealClock().now() < grace) {
      serve_messages();
      reap();
    }
    for (Rank& rank : ranks_) {
      ::kill(-rank.pid, SIGKILL);
      if (!rank.ended) {
        ::waitpid(rank.pid, nullptr, 0);
      }
    }
  }

  bool judge(bool in_time) {
    bool right = in_time;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      const bool ended_right = rank.ended && rank.code == rank.expected_code;
      right &= ended_right;
      if (!ended_right) {
        std::cout << "==== rank " << i << " of " << ranks_.size() << ": "
                  << (rank.met_limit ? "did not end within " + std::to_string(options_.limit_s) + " s"
                                     : "ended with code " + std::to_string(rank.code) + ", expected " +
                                           std::to_string(rank.expected_code))
                  << "\n"
                  << std::ifstream(rank.log).rdbuf() << std::flush;
        std::cout.clear();
      }
    }
    if (right) {
      std::cout << std::ifstream(ranks_[0].log).rdbuf();
      std::cout.clear();
    }
    return right;
  }

  const ParentOptions& options_;
  std::vector<Rank> ranks_;
  std::optional<store::PrivateFolder> folder_;
  JobKey key_;
  std::unique_ptr<store::StoreServer> server_;
};

}  // namespace

int run_ranks(const ParentOptions& options) { return Parent(options).run(); }

}  // namespace ronde::test
