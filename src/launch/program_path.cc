#include "launch/program_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
namespace ronde::launch {

namespace {

bool is_program(const std::string& path) {
  struct stat facts {};
  return ::access(path.c_str(), X_OK) == 0 && ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

}  // namespace

std::string variable_of(const std::vector<std::string>& environment, std::string_view name) {
  const std::string prefix = std::string(name) + "=";
  std::string value;
  for (const std::string& each : environment) {
    if (each.starts_with(prefix)) {
      value = each.substr(prefix.size());
    }
  }
  return value;
}

std::optional<StartFailure> check_program(const std::string& program, const std::vector<std::string>& environment) {
  int error = ENOENT;
  if (program.find('/') != std::string::npos) {
    if (is_program(program)) {
      return std::nullopt;
    }
    error = ::access(program.c_str(), F_OK) == 0 ? EACCES : ENOENT;
  } else {
    std::istringstream folders(variable_of(environment, "PATH"));
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (is_program((folder.empty() ? "." : folder) + "/" + program)) {
        return std::nullopt;
      }
    }
  }
  return start_failure(-1, program, true, error);
}

}  // namespace ronde::launch
