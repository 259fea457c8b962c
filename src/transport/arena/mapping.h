// Memory shared between ranks that unmaps itself.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <utility>

#include "base/status.h"
#include "transport/arena/region_layout.h"

namespace ronde::transport {

/// A shared mapping that a forked child does not inherit and core dumps do not hold. It begins at a multiple of
/// kHugePageBytes.
class Mapping {
 public:
  enum class Access {
    own,      ///< readable and writable
    control,  ///< a peer's: only the pages of the control block and the heap are writable
  };

  /// Memory of this process alone, all zero; no page exists before it is touched.
  static Result<Mapping> anonymous(std::size_t bytes);
  /// A region of this layout, which a memfd of at least as many bytes holds: what lies before the heap is made to
  /// exist, the heap is not. The descriptor may be closed afterwards.
  static Result<Mapping> of_memfd(int memfd, const RegionLayout& layout, Access access);

  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_), owner_(other.owner_) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping& operator=(Mapping&&) = delete;
  /// In a forked child the range may belong to something else by now, so there nothing is unmapped.
  ~Mapping();

  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  /// Unmaps what lies behind the first `bytes`, a multiple of the page.
  void shrink(std::size_t bytes);

 private:
  Mapping(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
  /// Address space only: nothing there can be touched.
  static Result<Mapping> reserve(std::size_t bytes);
  /// Puts the file's bytes [begin, end), or zeros if there is no file, at the same place of the range.
  Status place(int memfd, std::size_t begin, std::size_t end, int flags);
  Status hide_from_forks_and_dumps();

  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  pid_t owner_ = ::getpid();
};

/// The largest heap, up to layout.heap_bytes and maybe 0, with which this process has the address space for the regions
/// of all ranks: half as much until the kernel agrees, and a quarter of what a limit of address space (RLIMIT_AS)
/// allows at most, since the program needs the rest.
std::size_t possible_heap_bytes(const RegionLayout& layout);

/// Pages of one mapping: made, entered in the page tables, given back. The ranges lie within a Mapping.
namespace pages {

/// Makes the pages exist, huge ones where they fit. `memfd`: where the kernel is older than Linux 5.14 the file and the
/// place in it of `begin`, -1 if there is none. Gives errno, 0 for success.
int make(std::byte* begin, std::size_t bytes, int memfd, std::size_t file_offset);
/// Enters existing pages in the page tables; a hint.
void enter(std::byte* begin, std::size_t bytes);
/// Takes the memory from the whole pages in the range.
void take(std::byte* begin, std::size_t bytes);
/// The same of pages that are private.
void take_private(std::byte* begin, std::size_t bytes);
/// Puts pages of this process alone in place of these, which lie in a file at `file_offset`: all zero, or with
/// `keeps_contents` what the file holds and what this process has stored up to that moment. Whole pages. Gives errno, 0
/// for success; on an error nothing has changed, as far as the kernel can put it back.
int make_private(std::byte* begin, std::size_t bytes, int memfd, std::size_t file_offset, bool keeps_contents);
std::size_t bytes_of_one();

}  // namespace pages

}  // namespace ronde::transport
