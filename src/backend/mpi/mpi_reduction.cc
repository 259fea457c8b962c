#include "backend/mpi/mpi_reduction.h"

namespace ronde::backend::mpi {

namespace {

std::optional<Handle> type_of(DType dtype, const Constants& constants) {
  switch (dtype) {
    case DType::float32: return constants.float32;
    case DType::float64: return constants.float64;
    case DType::int32: return constants.int32;
    case DType::int64: return constants.int64;
    default: return std::nullopt;
  }
}

std::optional<Handle> op_of(ReduceOp op, const Constants& constants) {
  switch (op) {
    case ReduceOp::average:
    case ReduceOp::sum: return constants.sum;
    case ReduceOp::product: return constants.product;
    case ReduceOp::min: return constants.min;
    case ReduceOp::max: return constants.max;
    default: return std::nullopt;
  }
}

bool is_float(DType dtype) { return dtype == DType::float32 || dtype == DType::float64; }

}  // namespace

std::optional<MpiReduction> MpiReduction::of(const reduce::Reduction& reduction, const Constants& constants,
                                             int ranks) {
  const std::optional<Handle> type = type_of(reduction.dtype, constants);
  const std::optional<Handle> op = op_of(reduction.op, constants);
  const bool is_plain = reduction.op != ReduceOp::average && reduction.prescale == 1.0 && reduction.postscale == 1.0;
  if (!type || !op || (!is_float(reduction.dtype) && !is_plain)) {
    return std::nullopt;
  }
  return MpiReduction(reduction, *type, *op, ranks);
}

MpiReduction::MpiReduction(const reduce::Reduction& reduction, Handle type, Handle op, int ranks)
    : type_(type), op_(op), element_bytes_(dtype_bytes(reduction.dtype)) {
  if (reduction.prescale != 1.0) {
    before_.emplace(reduce::Reduction{reduction.dtype, ReduceOp::sum, reduction.prescale, 1.0}, 1);
  }
  const bool is_average = reduction.op == ReduceOp::average && ranks > 1;
  if (is_average || reduction.postscale != 1.0) {
    behind_.emplace(
        reduce::Reduction{reduction.dtype, is_average ? ReduceOp::average : ReduceOp::sum, 1.0, reduction.postscale}, 1,
        is_average ? static_cast<std::size_t>(ranks) : 0);
  }
}

void MpiReduction::copy_in(const collectives::GatherList& list, std::size_t begin, std::size_t end,
                           std::byte* to) const {
  if (!before_) {
    list.gather(begin, end, to);
    return;
  }
  const reduce::DefaultArithmetic arithmetic;
  list.for_each(begin, end, [&](const std::byte* from, std::byte*, std::size_t bytes, std::size_t at) {
    const void* const inputs[] = {from};
    (*before_)(arithmetic, inputs, bytes / element_bytes_, to + (at - begin));
  });
}

void MpiReduction::copy_out(const collectives::GatherList& list, std::size_t begin, std::size_t end,
                            const std::byte* from) const {
  if (!behind_) {
    list.scatter(begin, end, from);
    return;
  }
  const reduce::DefaultArithmetic arithmetic;
  list.for_each(begin, end, [&](const std::byte*, std::byte* to, std::size_t bytes, std::size_t at) {
    const void* const inputs[] = {from + (at - begin)};
    (*behind_)(arithmetic, inputs, bytes / element_bytes_, to);
  });
}

}  // namespace ronde::backend::mpi
