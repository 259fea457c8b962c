#include "reduce/reduce.h"

#include <cstring>
#include <string>

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
  if (const Kernel kernel = at(table, reduction.dtype, reduction.op)) {
    return kernel;
  }
  return at(level_scalar::table(), reduction.dtype, reduction.op);
}

bool is_scaled(const Reduction& reduction) { return reduction.prescale != 1.0 || reduction.postscale != 1.0; }

/// Of one rank's values every operation is the identity, the average too.
void copy(const void* input, std::size_t bytes, void* output, void* second_output) {
  if (output != input) {
    std::memcpy(output, input, bytes);
  }
  if (second_output != nullptr && second_output != input) {
    std::memcpy(second_output, input, bytes);
  }
}

void reduce_on(const Level& level, const Reduction& reduction, std::span<const void* const> inputs, std::size_t count,
               void* output, void* second_output) {
  if (count == 0) {
    return;
  }
  const bool scaled = is_scaled(reduction);
  if (inputs.size() == 1 && !scaled) {
    copy(inputs[0], count * dtype_bytes(reduction.dtype), output, second_output);
    return;
  }
  const Kernel kernel = find_kernel(*level.table, reduction, scaled);
  kernel({.inputs = inputs.data(),
          .ranks = inputs.size(),
          .count = count,
          .output = output,
          .second_output = second_output,
          .prescale = reduction.prescale,
          .postscale = reduction.postscale});
}

}  // namespace

Status supports(const Reduction& reduction) {
  const std::string dtype(dtype_name(reduction.dtype));
  const std::string op(reduce_op_name(reduction.op));
  if (find_kernel(level_scalar::table(), reduction, is_scaled(reduction)) == nullptr) {
    return Status::error(Code::not_implemented, "reducing " + dtype + " by " + op + " is not implemented");
  }
  if (reduction.dtype == DType::boolean && is_scaled(reduction)) {
    return Status::error(Code::not_implemented, "scaling bool is not implemented");
  }
  return {};
}

void reduce(const Reduction& reduction, std::span<const void* const> inputs, std::size_t count, void* output,
            void* second_output) {
  reduce_on(current_level(), reduction, inputs, count, output, second_output);
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
