// CollectiveLibrary: somebody else's collectives, as a backend that copies in front of them and behind them sees them
// (staged_backend.h): those of MPI, of oneCCL. Ranks begin them in one order, and none can be taken back.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "types/op.h"
#include "types/tensor.h"

namespace ronde::backend {

/// A collective that has begun and was not seen to end.
using Underway = void*;

/// How much of a rank's memory is whose, by rank. By int, as MPI counts.
struct RankParts {
  std::vector<int> counts;  ///< elements
  std::vector<int> places;  ///< elements in front of it
  std::size_t bytes = 0;    ///< of all

  void add(std::size_t of_part, std::size_t element_bytes) {
    places.push_back(static_cast<int>(bytes / element_bytes));
    counts.push_back(static_cast<int>(of_part / element_bytes));
    bytes += of_part;
  }
};

/// Of ranks that each have so many bytes for all.
inline RankParts equal_parts(int ranks, std::size_t bytes) {
  RankParts parts;
  for (int rank = 0; rank < ranks; ++rank) {
    parts.add(bytes, 1);
  }
  return parts;
}

/// One call. All it points to stays there until it has ended.
struct CollectiveCall {
  OpKind kind;
  const std::byte* from;
  std::byte* to;      ///< a broadcast's only memory
  std::size_t count;  ///< elements: of a whole tensor, or all that a rank sends
  DType type;
  std::optional<ReduceOp> op;  ///< of what reduces
  int root;
  const RankParts* sent;      ///< of operations whose ranks have parts for each other
  const RankParts* received;  ///< the same
};

/// Of bytes: each rank gets what every rank has, in the order of ranks.
inline CollectiveCall gathering_call(const std::byte* from, std::byte* to, const RankParts& sent,
                                     const RankParts& received) {
  return {.kind = OpKind::allgather,
          .from = from,
          .to = to,
          .count = static_cast<std::size_t>(sent.counts.front()),
          .type = DType::uint8,
          .op = std::nullopt,
          .root = 0,
          .sent = &sent,
          .received = &received};
}

class CollectiveLibrary {
 public:
  virtual ~CollectiveLibrary() = default;
  /// As RONDE_BACKEND says it.
  virtual std::string_view backend() const = 0;
  /// For people: version and file.
  virtual const std::string& name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Readable when a collective may have ended.
  virtual int news_fd() const = 0;

  /// Whether it reduces so. The same on every rank, as is has().
  virtual bool reduces(DType type, ReduceOp op) const = 0;
  /// Whether it has the operation. `are_equal`: all parts that ranks have for each other are of one size.
  virtual bool has(OpKind kind, bool are_equal) const = 0;
  /// Begins a call. False: it has not, and the group goes on no more. Every rank begins the same in one order. One
  /// thread at a time, as test() and give_up(). Requires: has(), and reduces().
  virtual bool begin(const CollectiveCall& call, Underway* made) = 0;
  /// Whether it has ended; then it is forgotten. If not, news_fd() will be readable.
  virtual bool test(Underway* call) = 0;
  /// A call will never be asked for again, and may never end: the library may use its memory for good.
  virtual void give_up() = 0;
};

}  // namespace ronde::backend
