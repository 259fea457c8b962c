#include "store/private_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "store/folder_owner.h"
#include "store/unix_address.h"

namespace ronde::store {

namespace {

constexpr std::string_view kTemplate = "/ronde-XXXXXX";
/// The longest name of a socket that must still fit.
constexpr std::string_view kRoom = "/store";

}  // namespace

std::vector<std::string> folder_candidates(const char* xdg_runtime_dir, const char* tmpdir) {
  std::vector<std::string> candidates;
  for (const char* parent : {xdg_runtime_dir, tmpdir, "/tmp"}) {
    if (parent != nullptr && parent[0] == '/') {
      std::string path(parent);
      while (path.size() > 1 && path.back() == '/') {
        path.pop_back();
      }
      candidates.push_back(std::move(path));
    }
  }
  return candidates;
}

Result<PrivateFolder> PrivateFolder::create() {
  Status why;
  const std::vector<std::string> parents = folder_candidates(::getenv("XDG_RUNTIME_DIR"), ::getenv("TMPDIR"));
  for (const std::string& parent : parents) {
    remove_abandoned_folders(parent);
  }
  for (const std::string& parent : parents) {
    std::string path = parent + std::string(kTemplate);
    if (const auto address = unix_address(path + std::string(kRoom)); !address) {
      why = address.status();
    } else if (::mkdtemp(path.data()) != nullptr) {
      return PrivateFolder(std::move(path), ::getpid());
    } else {
      why = Status::from_errno("mkdtemp('" + path + "')", errno);
    }
  }
  return why.with_context("no folder for the job's socket in XDG_RUNTIME_DIR, TMPDIR or /tmp");
}

PrivateFolder::PrivateFolder(std::string path, pid_t owner)
    : path_(std::move(path)), owner_(owner), claim_(claim_folder(path_)) {}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), owner_(other.owner_), claim_(std::move(other.claim_)) {}

PrivateFolder& PrivateFolder::operator=(PrivateFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(owner_, other.owner_);
  std::swap(claim_, other.claim_);
  return *this;
}

PrivateFolder::~PrivateFolder() {
  if (!path_.empty() && owner_ == ::getpid()) {
    remove_private_folder(path_);
  }
}

}  // namespace ronde::store
