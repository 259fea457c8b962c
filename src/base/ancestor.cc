#include "base/ancestor.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

namespace ronde {

namespace {

/// Further ones are the session's, not the job's.
constexpr int kGenerations = 8;

std::string program_of(const std::string& entry) {
  std::array<char, 4096> text{};
  const ssize_t bytes = ::readlink((entry + "/exe").c_str(), text.data(), text.size());
  return bytes > 0 ? std::string(text.data(), static_cast<std::size_t>(bytes)) : std::string();
}

/// 0 if it is not known.
pid_t parent_of(const std::string& entry) {
  std::ifstream stat(entry + "/stat");
  std::string line;
  std::getline(stat, line);
  const std::size_t name_end = line.rfind(')');  // "pid (name) state parent ..."
  if (name_end == std::string::npos || line.size() < name_end + 5) {
    return 0;
  }
  return static_cast<pid_t>(std::strtol(line.c_str() + name_end + 4, nullptr, 10));
}

}  // namespace

std::optional<std::string> folder_of_ancestor(std::initializer_list<std::string_view> words) {
  pid_t process = ::getppid();
  for (int generation = 0; generation < kGenerations && process > 1; ++generation) {
    const std::string entry = "/proc/" + std::to_string(process);
    const std::string program = program_of(entry);
    if (const std::size_t slash = program.rfind('/'); slash != std::string::npos) {
      const bool is_one = std::any_of(words.begin(), words.end(), [&](std::string_view word) {
        return program.find(word, slash) != std::string::npos;
      });
      if (is_one) {
        return program.substr(0, slash);
      }
    }
    process = parent_of(entry);
  }
  return std::nullopt;
}

}  // namespace ronde
