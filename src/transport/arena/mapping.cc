#include "transport/arena/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "base/round_up.h"
#include "transport/arena/control_block.h"

namespace ronde::transport {

namespace {

// MADV_POPULATE_WRITE of Linux 5.14, which older C libraries do not name.
constexpr int kPopulateWrite = 23;

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::size_t soft_limit(__rlimit_resource_t resource) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : SIZE_MAX;
}

}  // namespace

Result<Mapping> Mapping::reserve(std::size_t bytes) {
  const std::size_t room = bytes + kHugePageBytes;
  void* const address = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return Status::from_errno("mmap of " + std::to_string(bytes) + " bytes of shared memory", errno);
  }
  auto* const begin = static_cast<std::byte*>(address);
  const std::size_t before =
      (kHugePageBytes - reinterpret_cast<std::uintptr_t>(begin) % kHugePageBytes) % kHugePageBytes;
  if (before > 0) {
    ::munmap(begin, before);
  }
  Mapping mapping(begin + before, room - before);
  mapping.shrink(bytes);
  return mapping;
}

Status Mapping::place(int memfd, std::size_t begin, std::size_t end, int flags) {
  const int kind = memfd < 0 ? MAP_ANONYMOUS : 0;
  if (begin < end &&
      ::mmap(base_ + begin, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE | kind | flags,
             memfd, static_cast<off_t>(memfd < 0 ? 0 : begin)) == MAP_FAILED) {
    return Status::from_errno("mmap of " + std::to_string(end - begin) + " bytes of shared memory", errno);
  }
  return {};
}

Status Mapping::hide_from_forks_and_dumps() {
  if (::madvise(base_, bytes_, MADV_DONTFORK) != 0) {
    return Status::from_errno("madvise(MADV_DONTFORK)", errno);
  }
  // A kernel that cannot leave it out of core dumps still works.
  static_cast<void>(::madvise(base_, bytes_, MADV_DONTDUMP));
  return {};
}

Result<Mapping> Mapping::anonymous(std::size_t bytes) {
  bytes = round_up(bytes, page_bytes());
  RONDE_ASSIGN_OR_RETURN(Mapping mapping, reserve(bytes));
  RONDE_RETURN_IF_ERROR(mapping.place(-1, 0, bytes, 0));
  RONDE_RETURN_IF_ERROR(mapping.hide_from_forks_and_dumps());
  return mapping;
}

Result<Mapping> Mapping::of_memfd(int memfd, const RegionLayout& layout, Access access) {
  const std::size_t eager = layout.eager_bytes();
  RONDE_ASSIGN_OR_RETURN(Mapping mapping, reserve(layout.total_bytes()));
  RONDE_RETURN_IF_ERROR(mapping.place(memfd, 0, eager, MAP_POPULATE));
  RONDE_RETURN_IF_ERROR(mapping.place(memfd, layout.heap_offset(), layout.total_bytes(), 0));
  RONDE_RETURN_IF_ERROR(mapping.hide_from_forks_and_dumps());
  const std::size_t writable = round_up(sizeof(ControlBlock), page_bytes());
  if (access == Access::control && writable < eager &&
      ::mprotect(mapping.base_ + writable, eager - writable, PROT_READ) != 0) {
    return Status::from_errno("mprotect of a peer's shared memory", errno);
  }
  return mapping;
}

void Mapping::shrink(std::size_t bytes) {
  if (bytes < bytes_) {
    ::munmap(base_ + bytes, bytes_ - bytes);
    bytes_ = bytes;
  }
}

Mapping::~Mapping() {
  if (base_ != nullptr && ::getpid() == owner_) {
    ::munmap(base_, bytes_);
  }
}

std::size_t possible_heap_bytes(const RegionLayout& layout) {
  const auto ranks = static_cast<std::size_t>(std::max(layout.size, 1));
  std::size_t heap = layout.heap_bytes;
  if (const std::size_t address_space = soft_limit(RLIMIT_AS); address_space != SIZE_MAX) {
    heap = std::min(heap, address_space / 4 / ranks);
  }
  // A file made larger than this limit would be answered with a signal.
  const std::size_t file = soft_limit(RLIMIT_FSIZE);
  heap = std::min(heap, file - std::min(file, layout.heap_offset()));
  for (; heap >= kHugePageBytes; heap /= 2) {
    heap = heap / kHugePageBytes * kHugePageBytes;
    const std::size_t all = ranks * (layout.heap_offset() + heap + kHugePageBytes);
    void* const address = ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address != MAP_FAILED) {
      ::munmap(address, all);
      return heap;
    }
  }
  return 0;
}

namespace pages {

namespace {

/// Advice for the part of a range that can be huge pages, where the kernel has any for shared memory.
void ask_for_huge(std::byte* begin, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = round_up(at, kHugePageBytes) - at;
  if (bytes >= before + kHugePageBytes) {
    static_cast<void>(::madvise(begin + before, (bytes - before) / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE));
  }
}

/// Without madvise for it: the file allocates, or each page is read, which makes it in shared memory.
int make_by_hand(std::byte* begin, std::size_t bytes, int memfd, std::size_t file_offset) {
  if (memfd >= 0) {
    const auto offset = static_cast<off_t>(file_offset);
    return ::fallocate(memfd, FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  }
  for (std::size_t at = 0; at < bytes; at += page_bytes()) {
    static_cast<void>(*static_cast<const volatile std::byte*>(begin + at));
  }
  return 0;
}

}  // namespace

int make(std::byte* begin, std::size_t bytes, int memfd, std::size_t file_offset) {
  // In pieces, since a signal ends the call and fallocate() then undoes what it has done.
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % page_bytes();
  begin -= before;
  bytes = round_up(bytes + before, page_bytes());
  ask_for_huge(begin, bytes);
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    int error = ::madvise(begin + at, piece, kPopulateWrite) == 0 ? 0 : errno;
    if (error == EINVAL) {
      error = make_by_hand(begin + at, piece, memfd, file_offset - before + at);
    }
    if (error == EINTR || error == EAGAIN) {
      continue;
    }
    if (error != 0) {
      return error;
    }
    at += piece;
  }
  return 0;
}

void enter(std::byte* begin, std::size_t bytes) {
  const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % page_bytes();
  static_cast<void>(::madvise(begin - before, round_up(bytes + before, page_bytes()), kPopulateWrite));
}

void take(std::byte* begin, std::size_t bytes) {
  const std::size_t page = page_bytes();
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(begin) % page) % page;
  if (bytes >= before + page) {
    static_cast<void>(::madvise(begin + before, (bytes - before) / page * page, MADV_REMOVE));
  }
}

void take_private(std::byte* begin, std::size_t bytes) { static_cast<void>(::madvise(begin, bytes, MADV_DONTNEED)); }

std::size_t bytes_of_one() { return page_bytes(); }

int make_private(std::byte* begin, std::size_t bytes, int memfd, std::size_t file_offset, bool keeps_contents) {
  // Made elsewhere and moved over the others: so a lack of memory is found before anything is lost, and threads that
  // read or write there meanwhile find one or the other.
  const int kind = keeps_contents ? 0 : MAP_ANONYMOUS;
  void* const made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | kind, keeps_contents ? memfd : -1,
                            keeps_contents ? static_cast<off_t>(file_offset) : 0);
  if (made == MAP_FAILED) {
    return errno;
  }
  static_cast<void>(::madvise(made, bytes, MADV_DONTFORK));
  static_cast<void>(::madvise(made, bytes, MADV_DONTDUMP));
  if (::mremap(made, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, begin) == MAP_FAILED) {
    const int error = errno;
    ::munmap(made, bytes);
    static_cast<void>(::mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, memfd,
                             static_cast<off_t>(file_offset)));
    return error;
  }
  for (std::size_t at = 0; keeps_contents && at < bytes; at += page_bytes()) {
    // Until the first store the file shows through. This one changes nothing, so other threads may store there too, and
    // the kernel copies the page with what they have stored so far.
    __atomic_fetch_or(reinterpret_cast<unsigned char*>(begin + at), 0, __ATOMIC_RELAXED);
  }
  return 0;
}

}  // namespace pages

}  // namespace ronde::transport
