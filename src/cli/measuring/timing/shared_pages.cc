#include "cli/measuring/timing/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace ronde::cli {

SharedPages::SharedPages(int descriptor, std::size_t bytes) : descriptor_(descriptor), bytes_(bytes) {
  if (descriptor_ < 0) {
    return;
  }
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  data_ = data == MAP_FAILED ? nullptr : data;
}

SharedPages SharedPages::create(std::size_t bytes) {
  const int descriptor = memfd_create("ronde bench", MFD_CLOEXEC);
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    close(descriptor);
    return SharedPages(-1, bytes);
  }
  return SharedPages(descriptor, bytes);
}

SharedPages SharedPages::open(std::int64_t pid, std::int64_t descriptor, std::size_t bytes) {
  return open("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor), bytes);
}

SharedPages SharedPages::open(const std::string& path, std::size_t bytes) {
  return SharedPages(::open(path.c_str(), O_RDWR | O_CLOEXEC), bytes);
}

SharedPages::SharedPages(SharedPages&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_) {}

SharedPages::~SharedPages() {
  if (data_ != nullptr) {
    munmap(data_, bytes_);
  }
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

}  // namespace ronde::cli
