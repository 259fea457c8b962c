// What a rank says of itself when the ranks of a host meet, and what must agree.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/arena/region_layout.h"

namespace ronde::transport {

/// The version of everything that lies in shared memory, raised when the meaning or the place of any word changes.
inline constexpr std::uint32_t kArenaVersion = 2;

struct Hello {
  std::uint32_t arena_version = kArenaVersion;
  std::string library_version;
  RegionLayout layout;  ///< its heap is what this rank could map of everybody; all take the smallest
  std::string host;
  std::int32_t pid = 0;
  /// Descriptors that come with it: memfd, eventfd and, where the kernel has them, pidfd.
  std::uint32_t descriptors = 0;
  /// Why this rank cannot take part, empty if it can. So a rank that fails says so instead of letting all wait.
  std::string failure;
};

std::vector<std::byte> encode(const Hello& hello);
/// VERSION_MISMATCH if it is no hello; one of another arena version is decoded as far as every version can be.
Result<Hello> decode(std::span<const std::byte> bytes);

/// What errors call one of the ranks that meet: its place in `job_ranks`, or itself where that is empty.
inline int job_rank(std::span<const int> job_ranks, std::size_t at) {
  return job_ranks.empty() ? static_cast<int>(at) : job_ranks[at];
}

/// Ok if these ranks can share memory, else the first reason why not. The same sentence on every rank, since each
/// judges the same list: VERSION_MISMATCH with what both sides have, or the failure of the rank that has one.
/// `job_ranks`: as for job_rank().
Status judge(const std::vector<Result<Hello>>& hellos, std::span<const int> job_ranks = {});
/// The layout of a world that judge() found fine.
RegionLayout agreed_layout(const std::vector<Result<Hello>>& hellos);

}  // namespace ronde::transport
