// The command line that starts an agent on another host, by ssh or by a batch system's own means. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ronde::launch {

/// `text` as one word of a POSIX shell's, of csh's and of fish's: in single quotes.
std::string quoted(std::string_view text);

struct Login {
  enum class Way { ssh, srun };
  Way way = Way::ssh;
  std::string command = "ssh";  ///< of ssh, a shell's words: "ssh -p 2222 -i key"
  int connect_timeout_s = 10;
};

/// Runs `program agent` on `host`. No secret is among the words: the job's key goes over standard input. Host
/// keys are checked as the user's configuration says; nobody is asked for anything, since many hosts would ask at once.
std::vector<std::string> login_command(const Login& login, const std::string& host, const std::string& program);

/// What a person can type to see whether it works: "ssh -o BatchMode=yes node1 true".
std::string trial_of(const Login& login, const std::string& host);

/// Whether `name` is this host, which needs no ssh: localhost, a loopback address, or what it calls itself (`own`).
bool is_this_host(std::string_view name, std::string_view own);

}  // namespace ronde::launch
