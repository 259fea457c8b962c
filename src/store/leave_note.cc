#include "store/leave_note.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <string_view>
#include <system_error>

#include "base/unique_fd.h"

namespace ronde::store {

namespace {

constexpr std::string_view kScheme = "unix:";

std::string path_of(const std::string& folder, int rank) { return folder + "/left." + std::to_string(rank); }

/// Beside the socket; empty if the address is of another kind.
std::string path_beside(const std::string& address, int rank) {
  const std::size_t end = address.rfind('/');
  if (!address.starts_with(kScheme) || end == std::string::npos) {
    return {};
  }
  return path_of(address.substr(kScheme.size(), end - kScheme.size()), rank);
}

}  // namespace

void note_leaving(const std::string& address, int rank, const LeaveNote& note) {
  const std::string path = path_beside(address, rank);
  if (path.empty()) {
    return;
  }
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() >= 0) {
    const std::string text = (note.let_down ? "+" : "=") + std::to_string(note.moment);
    [[maybe_unused]] const ssize_t written = ::write(file.get(), text.data(), text.size());
  }
}

void forget_leaving(const std::string& address, int rank) {
  if (const std::string path = path_beside(address, rank); !path.empty()) {
    ::unlink(path.c_str());
  }
}

std::optional<LeaveNote> noted_leaving(const std::string& folder, int rank) {
  const UniqueFd file(::open(path_of(folder, rank).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  char text[32];
  const ssize_t size = file.get() >= 0 ? ::read(file.get(), text, sizeof text) : -1;
  LeaveNote note;
  if (size <= 1 || std::from_chars(text + 1, text + size, note.moment).ec != std::errc()) {
    return std::nullopt;
  }
  note.let_down = text[0] == '+';
  return note;
}

}  // namespace ronde::store
