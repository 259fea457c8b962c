#include "base/forked_children.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace ronde {

namespace {

/// Never destroyed: a child may be forked while the process ends.
struct KeptDescriptors {
  std::mutex mutex;
  std::vector<int> all;  ///< guarded by mutex
};

KeptDescriptors& kept_descriptors() {
  static KeptDescriptors* const kept = [] {
    auto* const made = new KeptDescriptors;
    pthread_atfork([] { kept_descriptors().mutex.lock(); }, [] { kept_descriptors().mutex.unlock(); },
                   [] {
                     // Whoever closes such a number in the child must not close what somebody else has opened
                     // meanwhile.
                     const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
                     for (const int fd : kept_descriptors().all) {
                       if (nothing < 0 || ::dup3(nothing, fd, O_CLOEXEC) < 0) {
                         ::close(fd);
                       }
                     }
                     if (nothing >= 0) {
                       ::close(nothing);
                     }
                     kept_descriptors().mutex.unlock();
                   });
    return made;
  }();
  return *kept;
}

}  // namespace

KeptFromForkedChildren::KeptFromForkedChildren(int fd) : fd_(fd) {
  KeptDescriptors& kept = kept_descriptors();
  std::lock_guard lock(kept.mutex);
  kept.all.push_back(fd);
}

KeptFromForkedChildren::~KeptFromForkedChildren() {
  KeptDescriptors& kept = kept_descriptors();
  std::lock_guard lock(kept.mutex);
  std::erase(kept.all, fd_);
}

}  // namespace ronde
