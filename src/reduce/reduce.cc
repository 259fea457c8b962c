#include "reduce/reduce.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/copy_bytes.h"
#include "reduce/complex_product.h"
#include "reduce/control_word.h"
#include "reduce/integer_scaled.h"
#include "reduce/levels.h"

namespace ronde::reduce {
namespace {

Kernel at(const KernelTable& table, DType dtype, ReduceOp op) {
  const auto row = static_cast<std::size_t>(dtype);
  const auto column = static_cast<std::size_t>(op);
  return row < kDTypeNumbers && column < kReduceOpNumbers ? table.kernels[row][column] : nullptr;
}

/// Null if the pair of type and operation has none. The scalar level has all that any level has.
Kernel find_kernel(const KernelTable& table, const Reduction& reduction, bool is_scaled) {
  if (is_integer(reduction.dtype) && (is_scaled || reduction.op == ReduceOp::average)) {
    return integer_scaled_kernel(reduction.dtype, reduction.op);
  }
  if (is_complex(reduction.dtype) && reduction.op == ReduceOp::product) {
    return complex_product_kernel(reduction.dtype);
  }
  if (const Kernel kernel = at(table, reduction.dtype, reduction.op)) {
    return kernel;
  }
  return at(level_scalar::table(), reduction.dtype, reduction.op);
}

bool is_scaled(const Reduction& reduction) { return reduction.prescale != 1.0 || reduction.postscale != 1.0; }

/// Of one rank's values every operation is the identity, the average too.
void copy(const void* input, std::size_t bytes, void* output, void* second_output) {
  if (output != input) {
    copy_bytes(output, input, bytes);
  }
  if (second_output != nullptr && second_output != input) {
    copy_bytes(second_output, input, bytes);
  }
}

Kernel choose(const Level& level, const Reduction& reduction, std::size_t ranks) {
  const bool scaled = is_scaled(reduction);
  return ranks == 1 && !scaled ? nullptr : find_kernel(*level.table, reduction, scaled);
}

void reduce_on(const Level& level, const Reduction& reduction, std::span<const void* const> inputs, std::size_t count,
               void* output, void* second_output) {
  if (count == 0) {
    return;
  }
  const Kernel kernel = choose(level, reduction, inputs.size());
  if (kernel == nullptr) {
    copy(inputs[0], count * dtype_bytes(reduction.dtype), output, second_output);
    return;
  }
  const DefaultArithmetic arithmetic;
  kernel({.inputs = inputs.data(),
          .ranks = inputs.size(),
          .count = count,
          .output = output,
          .second_output = second_output,
          .prescale = reduction.prescale,
          .first_prescale = reduction.prescale,
          .postscale = reduction.postscale});
}

}  // namespace

Status supports(const Reduction& reduction) {
  const std::string dtype(dtype_name(reduction.dtype));
  const std::string op(reduce_op_name(reduction.op));
  if (dtype == "unknown" || op == "unknown") {
    return Status::error(Code::invalid_argument,
                         "there is no data type number " + std::to_string(static_cast<int>(reduction.dtype)) +
                             " or no reduction number " + std::to_string(static_cast<int>(reduction.op)));
  }
  if (reduction.dtype == DType::boolean && (reduction.op == ReduceOp::average || is_scaled(reduction))) {
    return Status::error(Code::not_implemented, "bool can be neither averaged nor scaled; convert it to a number");
  }
  if (find_kernel(level_scalar::table(), reduction, is_scaled(reduction)) == nullptr) {
    const bool lacks_order = reduction.op == ReduceOp::min || reduction.op == ReduceOp::max;
    const std::string why = reduction.op == ReduceOp::adasum ? ": only an allreduce of floats can"
                            : lacks_order                    ? ": it has no order"
                                                             : ": it has no bits to combine";
    return Status::error(Code::not_implemented, dtype + " cannot be reduced by " + op + why);
  }
  return {};
}

void reduce(const Reduction& reduction, std::span<const void* const> inputs, std::size_t count, void* output,
            void* second_output) {
  reduce_on(current_level(), reduction, inputs, count, output, second_output);
}

Reducer::Reducer(const Reduction& reduction, std::size_t ranks, std::size_t divisor, First first)
    : kernel_(reduction.op == ReduceOp::average && divisor > 1
                  ? find_kernel(*current_level().table, reduction, is_scaled(reduction))
                  : choose(current_level(), reduction, ranks)),
      ranks_(ranks),
      element_bytes_(dtype_bytes(reduction.dtype)),
      element_shift_(std::countr_zero(element_bytes_)),
      prescale_(reduction.prescale),
      first_prescale_(first == First::value ? reduction.prescale : 1.0),
      postscale_(reduction.postscale),
      divisor_(divisor) {}

void Reducer::operator()(const DefaultArithmetic&, const void* const* inputs, std::size_t count, void* output,
                         void* second_output) const {
  if (kernel_ == nullptr) {
    copy(inputs[0], count * element_bytes_, output, second_output);
    return;
  }
  kernel_({.inputs = inputs,
           .ranks = ranks_,
           .count = count,
           .output = output,
           .second_output = second_output,
           .prescale = prescale_,
           .first_prescale = first_prescale_,
           .postscale = postscale_,
           .divisor = divisor_});
}

void Reducer::to_all(const DefaultArithmetic& arithmetic, const void* const* inputs, std::size_t count,
                     std::span<void* const> outputs) const {
  if (outputs.size() <= 2) {
    (*this)(arithmetic, inputs, count, outputs[0], outputs.size() == 2 ? outputs[1] : nullptr);
    return;
  }
  // The kernel stores twice from its registers; the others get copies of a block that is still in the nearest cache.
  // A block of every input is read before any of its outputs is written, so an output may be an input.
  constexpr std::size_t kBlockBytes = 4096;
  constexpr std::size_t kMostAtOnce = 64;
  const std::size_t block = kBlockBytes / element_bytes_;
  const void* few[kMostAtOnce];
  std::vector<const void*> many(ranks_ > kMostAtOnce ? ranks_ : 0);
  const void** const at = ranks_ > kMostAtOnce ? many.data() : few;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t elements = std::min(block, count - begin);
    const std::size_t offset = begin * element_bytes_;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      at[rank] = static_cast<const std::byte*>(inputs[rank]) + offset;
    }
    void* const first = static_cast<std::byte*>(outputs[0]) + offset;
    (*this)(arithmetic, at, elements, first, static_cast<std::byte*>(outputs[1]) + offset);
    for (void* const output : outputs.subspan(2)) {
      copy_bytes(static_cast<std::byte*>(output) + offset, first, elements * element_bytes_);
    }
  }
}

std::vector<std::string_view> levels() {
  std::vector<std::string_view> names;
  for (const Level& level : runnable_levels()) {
    names.push_back(level.name);
  }
  return names;
}

std::string_view level() { return current_level().name; }

void reduce_at(std::string_view level, const Reduction& reduction, std::span<const void* const> inputs,
               std::size_t count, void* output, void* second_output) {
  for (const Level& candidate : runnable_levels()) {
    if (candidate.name == level) {
      reduce_on(candidate, reduction, inputs, count, output, second_output);
    }
  }
}

}  // namespace ronde::reduce
