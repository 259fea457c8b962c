#include "base/site_settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.h"

namespace ronde {

namespace {

constexpr const char* kFile = "/etc/ronde.conf";
constexpr std::size_t kMostBytes = 65536;

/// What all jobs of a machine can have in common: no job's own places and names, nothing that is for finding faults.
constexpr std::array<std::string_view, 20> kNames = {"RONDE_BACKEND",        "RONDE_FUSION_THRESHOLD",
                                                     "RONDE_HOST_TIMEOUT_S", "RONDE_INIT_TIMEOUT_S",
                                                     "RONDE_LOG_LEVEL",      "RONDE_MPI_LAUNCHER",
                                                     "RONDE_MPI_LIBRARY",    "RONDE_OFI_LIBRARY",
                                                     "RONDE_OFI_PROVIDER",   "RONDE_ONECCL_LIBRARY",
                                                     "RONDE_PORT_RANGE",     "RONDE_PROBE",
                                                     "RONDE_SOCKET_IFNAME",  "RONDE_SSH",
                                                     "RONDE_STALL_S",        "RONDE_TABLE",
                                                     "RONDE_TCP_CONGESTION", "RONDE_TCP_INTEGRITY",
                                                     "RONDE_TIMEOUT_S",      "RONDE_TRANSPORT"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

Status malformed(const std::string& path, int line, const std::string& what) {
  return Status::error(Code::invalid_argument, path + ", line " + std::to_string(line) + ": " + what);
}

std::string names() {
  std::string all;
  for (const std::string_view name : kNames) {
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return all;
}

Status unreadable(const std::string& path, int error) {
  return Status::error(Code::system_error, "cannot read the site's settings, " + path + ": " + std::strerror(error));
}

}  // namespace

Result<SiteSettings> SiteSettings::parse(const std::string& path, std::string_view text) {
  SiteSettings settings;
  settings.path_ = path;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const std::size_t equals = line.find('=');
    const std::string_view value = equals == line.npos ? "" : trimmed(line.substr(equals + 1));
    if (value.empty() ||
        std::ranges::any_of(line, [](char each) { return static_cast<unsigned char>(each) < ' ' && each != '\t'; })) {
      return malformed(path, number, "expected NAME=VALUE, as in RONDE_BACKEND=mpi");
    }
    const std::string name(trimmed(line.substr(0, equals)));
    if (std::ranges::find(kNames, name) == kNames.end()) {
      return malformed(path, number, "a site cannot set '" + name.substr(0, 100) + "'; it can set " + names());
    }
    if (settings.find(name)) {
      return malformed(path, number, name + " for the second time");
    }
    settings.values_.emplace_back(name, value);
  }
  return settings;
}

std::optional<std::string> SiteSettings::find(std::string_view name) const {
  const auto found = std::ranges::find(values_, name, &std::pair<std::string, std::string>::first);
  return found == values_.end() ? std::optional<std::string>() : found->second;
}

Result<SiteSettings> read_site_settings(const std::string& path, bool may_be_absent) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    return may_be_absent && (errno == ENOENT || errno == ENOTDIR) ? Result<SiteSettings>(SiteSettings())
                                                                  : Result<SiteSettings>(unreadable(path, errno));
  }
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) {
    return unreadable(path, errno);
  }
  // Not whose it is: where a container's user is mapped alone, root's files seem to be nobody's.
  if (!S_ISREG(status.st_mode) || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Status::error(Code::auth_failed, "the site's settings, " + path +
                                                ", cannot be trusted: expected a regular file that only its owner may "
                                                "write to (chmod go-w)");
  }
  std::string text(kMostBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno != EINTR) {
      return unreadable(path, errno);
    }
    if (got == 0) {
      break;
    }
    size += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  if (size > kMostBytes) {
    return Status::error(Code::invalid_argument, "the site's settings, " + path + ", have more than 64 KiB");
  }
  return SiteSettings::parse(path, std::string_view(text).substr(0, size));
}

const Result<SiteSettings>& site_settings() {
  // Never destroyed: the log and the engine's thread may ask while the process exits.
  static const Result<SiteSettings>& settings = *[] {
    const char* const named = std::getenv("RONDE_SITE_FILE");
    const bool is_named = named != nullptr && *named != '\0';
    return new Result<SiteSettings>(read_site_settings(is_named ? named : kFile, !is_named));
  }();
  return settings;
}

}  // namespace ronde
