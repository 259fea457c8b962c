// Request: what one rank wants done to one named tensor, or to one named group of tensors. Descriptor: the part of it
// that all ranks must agree on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "types/group.h"
#include "types/memory_place.h"
#include "types/operations.h"
#include "types/tensor.h"

namespace ronde {

inline constexpr std::size_t kMaxNameBytes = 4096;
inline constexpr std::size_t kMaxDimensions = 32;
inline constexpr std::size_t kMaxTensorsPerRequest = 65536;

struct RequestTensor {
  Tensor input;
  Tensor output;  ///< same memory as input: in place. Null data where the ticket makes the output (makes_outputs())
};

/// Marks the requests of one persistent plan: they are planned together as soon as each has been agreed once.
struct PlannedGroup {
  std::uint64_t id = 0;    ///< equal on all ranks and for all requests of the plan; 0: no plan
  std::uint32_t size = 0;  ///< how many requests (names) the plan has
  bool operator==(const PlannedGroup&) const = default;
};

struct Request {
  OpKind kind = OpKind::allreduce;
  std::int32_t group = 0;
  std::string name;
  /// An unnamed call's number, which `name` is made of; or of the unnamed call that this request belongs to, as that of
  /// a backward pass to its forward's. Neither comes again. 0: the name is the program's. Of a barrier: the number of
  /// the last unnamed call before it.
  std::uint64_t call_number = 0;
  bool has_own_number = false;  ///< it is an unnamed call itself, or a barrier or join without a name
  /// With a call number: where replay looks for it (engine/requests/call_order.h). Else empty: it comes back under its
  /// name.
  std::string planning_name;
  std::vector<RequestTensor> tensors;
  ReduceOp reduce_op = ReduceOp::sum;
  int root = 0;  ///< global rank; of send and recv the peer
  double prescale = 1.0;
  double postscale = 1.0;
  Nanoseconds timeout = kNever;  ///< how long the ranks may take, from the first submit to the end
  PlannedGroup planned_group;
  /// Where the operation takes them (with a root at the root): rows for each member of the group; empty: as many for
  /// each.
  std::vector<std::int64_t> splits;
  /// Of send and recv: by which they meet. Of a call without a name: how it came about (below), 0 where nobody knows.
  std::int32_t tag = 0;
  /// Where the program submits it ("train.py:12"), for errors; null: unknown. It lives as long as the process.
  const std::string* call_site = nullptr;
};

/// Tags of calls without a name, which ranks pair by their order. A binding may run what the program has put behind the
/// end of an earlier call (a future's callback), on each rank when that rank has seen the end. Calls made there come in
/// the same order on all ranks only if all see it at the same place among their calls; so they say where it was, and
/// ranks compare it before they reduce anything. A rank that does not know (0) agrees with all.
inline constexpr std::int32_t kOwnOrder = 1;           ///< by the program itself
inline constexpr std::int32_t kBehindOther = 1 << 29;  ///< + n: behind an end that is no such call's; n says which
/// + n: behind what was put behind an end that is such a call's; n says which, and how many calls before. A program
/// that repeats itself has the same n again.
inline constexpr std::int32_t kBehindChain = 1 << 30;
// 1 + n, from n = 1 on: behind the call n before this one.

/// Whether it is behind an end that is no such call's.
inline bool is_behind_other(std::int32_t tag) { return tag >= kBehindOther && tag < kBehindChain; }

/// Of a recv: from whichever rank sends first.
inline constexpr int kAnySource = -1;

/// How many rows of `rows` each of `ranks` ranks gets in a reduce-scatter: as equal as can be, the first ones one more.
std::vector<std::int64_t> scattered_rows(std::int64_t rows, int ranks);

/// What must be equal on all ranks (of what has rows, allgather and the like, all but the first extent).
struct Descriptor {
  struct Spec {
    DType dtype = DType::float32;
    Shape shape;
    bool operator==(const Spec&) const = default;
  };

  OpKind kind = OpKind::allreduce;
  ReduceOp reduce_op = ReduceOp::sum;
  int root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  std::vector<Spec> tensors;
  PlannedGroup planned_group;

  // ---- This rank's own circumstances: not part of what must be equal, of == or of disagreement().

  std::int32_t tag = 0;  ///< of a call without a name, as Request has it; compared by those who know (answer.h)

  /// Where the one tensor begins in this rank's memory that others reach; not known: it is private, or there are
  /// several.
  MemoryPlace memory_place;
  std::vector<std::int64_t> splits;  ///< as Request has them

  bool operator==(const Descriptor& other) const;
};

/// Gives the fields that this kind of request does not use their default, so that requests which agree are equal in
/// every field (plans are made from them).
void canonicalise(Request& request);

Descriptor describe(const Request& request);

/// What of two descriptors differs, as a reader would say it ("shape", "data type", ...); empty if they agree.
std::string disagreement(const Descriptor& a, const Descriptor& b);

/// "behind the end of the call 3 before it": how a call without a name came about; empty where nobody knows.
std::string tag_text(std::int32_t tag);

/// "allreduce (sum) of float32 [2, 3]"
std::string descriptor_text(const Descriptor& descriptor);

/// Everything about a request that its own rank can check: INVALID_ARGUMENT or NOT_IMPLEMENTED with a sentence that
/// names the tensor. `rank`: the global rank that asks.
Status validate(const Request& request, const Group& group, int rank);

}  // namespace ronde
