#include "launch/ssh_command.h"

namespace ronde::launch {

std::string quoted(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::vector<std::string> ssh_command(const SshSettings& settings, const std::string& host, const std::string& program) {
  // The user's words are a shell's, as those of GIT_SSH_COMMAND; ours come behind as they are.
  return {"/bin/sh",
          "-c",
          "exec " + settings.command + " \"$@\"",
          "ssh",
          "-T",
          "-x",
          "-o",
          "BatchMode=yes",
          "-o",
          "ConnectTimeout=" + std::to_string(settings.connect_timeout_s),
          "-o",
          "ServerAliveInterval=5",
          "-o",
          "ServerAliveCountMax=3",
          "--",
          host,
          "exec " + quoted(program) + " agent"};
}

bool is_this_host(std::string_view name, std::string_view own) {
  return name == "localhost" || name == "::1" || name.starts_with("127.") || name == own ||
         name == own.substr(0, own.find('.'));
}

}  // namespace ronde::launch
