// What a process that starts ranks, the launcher or its agent on another host, does with itself first.
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

namespace ronde::launch {

/// So that no descriptor of ours becomes 0, 1 or 2 by chance.
void open_standard_descriptors();

/// Two pipes a rank, and in the store four descriptors a rank, are more than the usual soft limit. The ranks get the
/// limit that was, and so does this process when the job is over.
class ManyOpenFiles {
 public:
  ManyOpenFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit raised{before_.rlim_max, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &raised);
  }
  ~ManyOpenFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  ManyOpenFiles(const ManyOpenFiles&) = delete;
  ManyOpenFiles& operator=(const ManyOpenFiles&) = delete;
  const rlimit& before() const { return before_; }

 private:
  rlimit before_{};
};

/// A TCP port that is free now on all addresses, for torch.distributed; we do not keep it. 29500, torch's own default,
/// if there is no way to know.
int free_port();

/// "NAME=value" each.
std::vector<std::string> own_environment();

}  // namespace ronde::launch
