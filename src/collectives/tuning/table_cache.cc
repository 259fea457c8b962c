#include "collectives/tuning/table_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/boot_id.h"
#include "base/unique_fd.h"
#include "base/version.h"

namespace ronde::collectives {

namespace {

constexpr std::size_t kLongestFile = 65536;
constexpr std::string_view kHandOver = ", hand-over ";

/// At most so many bytes from the beginning; of a long list the kernel makes no more than is asked for.
std::string read_some(int fd, std::size_t most) {
  std::string text(most, '\0');
  std::size_t got = 0;
  while (got < most) {
    const ssize_t count = ::read(fd, text.data() + got, most - got);
    if (count <= 0) {
      break;
    }
    got += static_cast<std::size_t>(count);
  }
  text.resize(got);
  return text;
}

std::string read_some(const char* path, std::size_t most) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  return file.is_open() ? read_some(file.get(), most) : std::string();
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

/// The first processor's name, or its number where names are not told.
std::string processor() {
  const std::string list = read_some("/proc/cpuinfo", 4096);
  for (const std::string_view field : {"model name", "CPU part"}) {
    const std::size_t at = list.find(field);
    const std::size_t colon = at == list.npos ? at : list.find(": ", at);
    if (colon != list.npos) {
      return first_line(std::string_view(list).substr(colon + 2));
    }
  }
  return "unknown";
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// The file's folder and the one above it: ~/.cache/ronde in a home that has no ~/.cache yet.
void make_folders(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  if (::access(folder.c_str(), F_OK) != 0) {
    ::mkdir(folder.substr(0, folder.rfind('/')).c_str(), 0700);
    ::mkdir(folder.c_str(), 0700);
  }
}

}  // namespace

std::string table_cache_path(const char* runtime_dir, const char* cache_home, const char* home, unsigned user) {
  const std::string name = "/ronde-table-" + std::to_string(user);
  const auto is_folder = [](const char* path) { return path != nullptr && path[0] == '/'; };
  if (is_folder(runtime_dir)) {
    return runtime_dir + name;
  }
  if (is_folder(cache_home)) {
    return std::string(cache_home) + "/ronde" + name;
  }
  return is_folder(home) ? std::string(home) + "/.cache/ronde" + name : std::string();
}

std::optional<TableCache> TableCache::of_this_user() {
  const std::string boot = boot_id();
  std::string path = table_cache_path(::getenv("XDG_RUNTIME_DIR"), ::getenv("XDG_CACHE_HOME"), ::getenv("HOME"),
                                      static_cast<unsigned>(::geteuid()));
  if (boot.empty() || path.empty()) {
    return std::nullopt;
  }
  return TableCache(std::move(path),
                    "# ronde " + std::string(kVersion) + ", boot " + boot + ", processor " + processor());
}

std::optional<ProbedTable> TableCache::load() const {
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about {};
  if (!file.is_open() || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != ::geteuid() ||
      (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return std::nullopt;
  }
  const std::string text = read_some(file.get(), kLongestFile);
  const std::string head = identity_ + std::string(kHandOver);
  if (!text.starts_with(head)) {
    return std::nullopt;
  }
  std::uint64_t hand_over = 0;
  const char* const number = text.data() + head.size();
  const auto [end, error] = std::from_chars(number, text.data() + text.size(), hand_over);
  Result<Table> table = Table::parse(text);
  if (error != std::errc{} || end == number || hand_over == 0 || !table) {
    return std::nullopt;
  }
  return ProbedTable{std::move(*table), static_cast<double>(hand_over)};
}

bool TableCache::store(const ProbedTable& probed) const {
  make_folders(path_);
  std::string unfinished = path_ + ".XXXXXX";
  const UniqueFd file(::mkostemp(unfinished.data(), O_CLOEXEC));  // of mode 0600
  if (!file.is_open()) {
    return false;
  }
  const auto hand_over = static_cast<std::uint64_t>(std::max(1.0, std::round(probed.hand_over)));
  const std::string text =
      identity_ + std::string(kHandOver) + std::to_string(hand_over) + " ns\n" + probed.table.text();
  if (write_all(file.get(), text) && ::rename(unfinished.c_str(), path_.c_str()) == 0) {
    return true;
  }
  ::unlink(unfinished.c_str());
  return false;
}

}  // namespace ronde::collectives
