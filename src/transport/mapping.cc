#include "transport/mapping.h"

#include <sys/mman.h>

#include <cerrno>

#include "transport/arena.h"

namespace ronde::transport {

Result<Mapping> Mapping::finish(void* address, std::size_t bytes) {
  if (address == MAP_FAILED) {
    return Status::from_errno("mmap of " + std::to_string(bytes) + " bytes of shared memory", errno);
  }
  Mapping mapping(static_cast<std::byte*>(address), bytes);
  if (::madvise(address, bytes, MADV_DONTFORK) != 0) {
    return Status::from_errno("madvise(MADV_DONTFORK)", errno);
  }
  // A kernel that cannot leave it out of core dumps still works.
  static_cast<void>(::madvise(address, bytes, MADV_DONTDUMP));
  return mapping;
}

Result<Mapping> Mapping::anonymous(std::size_t bytes) {
  return finish(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), bytes);
}

Result<Mapping> Mapping::of_memfd(int memfd, std::size_t bytes, Access access) {
  Result<Mapping> mapping =
      finish(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memfd, 0), bytes);
  if (!mapping || access == Access::own) {
    return mapping;
  }
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t writable = (sizeof(ControlBlock) + page - 1) / page * page;
  if (writable < bytes && ::mprotect(mapping->base() + writable, bytes - writable, PROT_READ) != 0) {
    return Status::from_errno("mprotect of a peer's shared memory", errno);
  }
  return mapping;
}

Mapping::~Mapping() {
  if (base_ != nullptr && ::getpid() == owner_) {
    ::munmap(base_, bytes_);
  }
}

}  // namespace ronde::transport
