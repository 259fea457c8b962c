#include "backend/staged/staged_reduction.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/schedule/message_limits.h"
#include "reduce/widen.h"

namespace ronde::backend {

namespace {

using collectives::GatherList;
using reduce::DefaultArithmetic;

/// As what libraries add it.
DType staged_type(DType dtype) {
  switch (dtype) {
    case DType::complex64: return DType::float32;
    case DType::complex128: return DType::float64;
    case DType::boolean: return DType::uint8;
    default: return reduce::is_small_float(dtype) ? DType::float32 : dtype;
  }
}

bool is_unsigned(DType dtype) {
  return dtype == DType::uint8 || dtype == DType::uint16 || dtype == DType::uint32 || dtype == DType::uint64;
}

/// Two libraries were found to reduce integers wrongly. Open MPI 4.1 adds those of 8 and 16 bits by instructions that
/// saturate, but for each tensor's last elements, where Ronde's sums wrap. MPICH 4.0 compares unsigned ones as signed.
bool is_trusted(DType integer, ReduceOp op) {
  if (op == ReduceOp::sum || op == ReduceOp::product) {
    return dtype_bytes(integer) >= sizeof(std::int32_t);
  }
  return (op != ReduceOp::min && op != ReduceOp::max) || !is_unsigned(integer);
}

/// "Any rank has it", which bits tell whatever byte a program has for true.
bool is_any(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bit_or; }

bool is_as_ours(const reduce::Reduction& reduction) {
  const ReduceOp op = reduction.op;
  if (!reduce::supports(reduction)) {
    return false;
  }
  if (is_complex(reduction.dtype)) {
    return op == ReduceOp::sum || op == ReduceOp::average;
  }
  if (is_floating(reduction.dtype)) {
    return op == ReduceOp::sum || op == ReduceOp::average || op == ReduceOp::product;
  }
  if (reduction.dtype == DType::boolean ? !is_any(op) : !is_trusted(reduction.dtype, op)) {
    return false;
  }
  return op != ReduceOp::average && reduction.prescale == 1.0 && reduction.postscale == 1.0;
}

/// Whether the order in which ranks' values meet may be seen in the result.
bool rounds(const reduce::Reduction& reduction) {
  return is_as_ours(reduction) && (is_floating(reduction.dtype) || is_complex(reduction.dtype));
}

bool goes_in_order(const reduce::Reduction& reduction, const CollectiveLibrary& library, OpKind kind) {
  const bool are_few = library.size() > 2 && library.size() <= collectives::messages::MessageLimits().rank_order_to;
  return kind == OpKind::allreduce && are_few && rounds(reduction) && library.has(OpKind::allgather, true);
}

}  // namespace

std::optional<StagedReduction> StagedReduction::of(const reduce::Reduction& reduction, const CollectiveLibrary& library,
                                                   OpKind kind) {
  if (goes_in_order(reduction, library, kind)) {
    return StagedReduction(reduction, static_cast<std::size_t>(library.size()));
  }
  const DType staged = staged_type(reduction.dtype);
  const ReduceOp asked = reduction.op == ReduceOp::average ? ReduceOp::sum : reduction.op;
  const ReduceOp op = reduction.dtype == DType::boolean ? ReduceOp::bit_or : asked;
  if (!is_as_ours(reduction) || !library.reduces(staged, op)) {
    return std::nullopt;
  }
  return StagedReduction(reduction, staged, op, static_cast<std::size_t>(library.size()));
}

StagedReduction::StagedReduction(const reduce::Reduction& reduction, std::size_t ranks)
    : dtype_(reduction.dtype),
      staged_(reduction.dtype),
      op_(reduction.op),
      element_bytes_(dtype_bytes(reduction.dtype)),
      staged_element_bytes_(element_bytes_),
      ranks_(ranks),
      is_widened_(false),
      in_order_(std::in_place, reduction, ranks) {}

StagedReduction::StagedReduction(const reduce::Reduction& reduction, DType staged, ReduceOp op, std::size_t ranks)
    : dtype_(reduction.dtype),
      staged_(staged),
      op_(op),
      element_bytes_(std::min(dtype_bytes(reduction.dtype), dtype_bytes(staged))),
      staged_element_bytes_(dtype_bytes(staged)),
      ranks_(ranks),
      is_widened_(reduce::is_small_float(reduction.dtype)) {
  if (reduction.prescale != 1.0) {
    before_.emplace(reduce::Reduction{staged, ReduceOp::sum, reduction.prescale, 1.0}, 1);
  }
  const bool is_average = reduction.op == ReduceOp::average && ranks > 1;
  if (is_average || reduction.postscale != 1.0) {
    behind_.emplace(reduce::Reduction{staged, is_average ? ReduceOp::average : ReduceOp::sum, 1.0, reduction.postscale},
                    1, is_average ? ranks : 0);
  }
}

void StagedReduction::copy_in(const GatherList& list, std::size_t begin, std::size_t end, std::byte* to) const {
  if (!before_ && !is_widened_) {
    list.gather(begin, end, to);
    return;
  }
  const DefaultArithmetic arithmetic;
  list.for_each(begin, end, [&](const std::byte* from, std::byte*, std::size_t bytes, std::size_t at) {
    const std::size_t elements = bytes / element_bytes_;
    std::byte* const place = to + staged(at - begin);
    const void* inputs[] = {from};
    if (is_widened_) {
      reduce::widen(arithmetic, dtype_, from, elements, reinterpret_cast<float*>(place));
      inputs[0] = place;
    }
    if (before_) {
      (*before_)(arithmetic, inputs, elements, place);
    }
  });
}

void StagedReduction::copy_out(const GatherList& list, std::size_t begin, std::size_t end, const std::byte* from,
                               std::size_t stride) const {
  if (in_order_) {
    reduce_out(list, begin, end, from, stride);
    return;
  }
  if (!behind_ && !is_widened_) {
    list.scatter(begin, end, from);
    return;
  }
  const DefaultArithmetic arithmetic;
  list.for_each(begin, end, [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t at) {
    const std::byte* const place = from + staged(at - begin);
    if (is_widened_) {
      narrow_out(place, bytes / element_bytes_, to);
    } else {
      const void* const inputs[] = {place};
      (*behind_)(arithmetic, inputs, bytes / element_bytes_, to);
    }
  });
}

void StagedReduction::reduce_out(const GatherList& list, std::size_t begin, std::size_t end, const std::byte* from,
                                 std::size_t stride) const {
  const DefaultArithmetic arithmetic;
  std::vector<const void*> values(ranks_);
  list.for_each(begin, end, [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t at) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      values[rank] = from + rank * stride + (at - begin);
    }
    (*in_order_)(arithmetic, values.data(), in_order_->elements(bytes), to);
  });
}

/// Block by block, by way of the nearest cache: the one rounding comes last.
void StagedReduction::narrow_out(const std::byte* from, std::size_t elements, std::byte* to) const {
  const DefaultArithmetic arithmetic;
  std::array<float, 1024> block;
  for (std::size_t at = 0; at < elements; at += block.size()) {
    const std::size_t count = std::min(block.size(), elements - at);
    const void* const inputs[] = {from + at * sizeof(float)};
    const auto* values = static_cast<const float*>(inputs[0]);
    if (behind_) {
      (*behind_)(arithmetic, inputs, count, block.data());
      values = block.data();
    }
    reduce::narrow(arithmetic, dtype_, values, count, to + at * element_bytes_);
  }
}

}  // namespace ronde::backend
