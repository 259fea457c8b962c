#include "backend/mpi/mpi_reduction.h"

#include <algorithm>
#include <array>

#include "reduce/widen.h"

namespace ronde::backend::mpi {

namespace {

using reduce::DefaultArithmetic;

/// As what MPI adds it.
DType staged_type(DType dtype) {
  switch (dtype) {
    case DType::complex64: return DType::float32;
    case DType::complex128: return DType::float64;
    case DType::boolean: return DType::uint8;
    default: return reduce::is_small_float(dtype) ? DType::float32 : dtype;
  }
}

std::optional<Handle> type_of(DType staged, const Constants& constants) {
  switch (staged) {
    case DType::float32: return constants.float32;
    case DType::float64: return constants.float64;
    case DType::int8: return constants.int8;
    case DType::uint8: return constants.uint8;
    case DType::int16: return constants.int16;
    case DType::uint16: return constants.uint16;
    case DType::int32: return constants.int32;
    case DType::uint32: return constants.uint32;
    case DType::int64: return constants.int64;
    case DType::uint64: return constants.uint64;
    default: return std::nullopt;
  }
}

/// Truth values are bits: a sum is "any", a product "every".
ReduceOp op_on_bits(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max: return ReduceOp::bit_or;
    case ReduceOp::product:
    case ReduceOp::min: return ReduceOp::bit_and;
    default: return op;
  }
}

std::optional<Handle> op_of(ReduceOp op, const Constants& constants) {
  switch (op) {
    case ReduceOp::average:
    case ReduceOp::sum: return constants.sum;
    case ReduceOp::product: return constants.product;
    case ReduceOp::min: return constants.min;
    case ReduceOp::max: return constants.max;
    case ReduceOp::bit_and: return constants.bit_and;
    case ReduceOp::bit_or: return constants.bit_or;
    case ReduceOp::bit_xor: return constants.bit_xor;
    default: return std::nullopt;
  }
}

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
  return op != ReduceOp::average && reduction.prescale == 1.0 && reduction.postscale == 1.0;
}

}  // namespace

std::optional<MpiReduction> MpiReduction::of(const reduce::Reduction& reduction, const Constants& constants,
                                             int ranks) {
  const DType staged = staged_type(reduction.dtype);
  const std::optional<Handle> type = type_of(staged, constants);
  const std::optional<Handle> op =
      op_of(reduction.dtype == DType::boolean ? op_on_bits(reduction.op) : reduction.op, constants);
  if (!type || !op || !is_as_ours(reduction)) {
    return std::nullopt;
  }
  return MpiReduction(reduction, staged, *type, *op, ranks);
}

MpiReduction::MpiReduction(const reduce::Reduction& reduction, DType staged, Handle type, Handle op, int ranks)
    : dtype_(reduction.dtype),
      type_(type),
      op_(op),
      element_bytes_(std::min(dtype_bytes(reduction.dtype), dtype_bytes(staged))),
      staged_element_bytes_(dtype_bytes(staged)),
      is_widened_(reduce::is_small_float(reduction.dtype)) {
  if (reduction.prescale != 1.0) {
    before_.emplace(reduce::Reduction{staged, ReduceOp::sum, reduction.prescale, 1.0}, 1);
  }
  const bool is_average = reduction.op == ReduceOp::average && ranks > 1;
  if (is_average || reduction.postscale != 1.0) {
    behind_.emplace(reduce::Reduction{staged, is_average ? ReduceOp::average : ReduceOp::sum, 1.0, reduction.postscale},
                    1, is_average ? static_cast<std::size_t>(ranks) : 0);
  }
}

void MpiReduction::copy_in(const collectives::GatherList& list, std::size_t begin, std::size_t end,
                           std::byte* to) const {
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

void MpiReduction::copy_out(const collectives::GatherList& list, std::size_t begin, std::size_t end,
                            const std::byte* from) const {
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

/// Block by block, by way of the nearest cache: the one rounding comes last.
void MpiReduction::narrow_out(const std::byte* from, std::size_t elements, std::byte* to) const {
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

}  // namespace ronde::backend::mpi
