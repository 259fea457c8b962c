// Part of <ronde/ronde.hpp>: prefix reductions over the ranks.
#pragma once

#include <ronde/request.hpp>

namespace ronde {
inline namespace v0 {

struct ScanOptions {
  std::string_view name = {};
  Op op = Op::sum;       ///< neither average nor adasum
  double prescale = 1;   ///< each value is multiplied by it as it is read; not 0
  double postscale = 1;  ///< the result is multiplied by it, last; not 0
  double timeout_s = 0;
  DoneCallback on_done = {};
  const Engine* engine = nullptr;
  Group group = {};
};

namespace detail {
inline Ticket scan(ronde_op which, const ConstTensorView& input, const ConstTensorView& output,
                   const ScanOptions& options, Ticket (*finish)(Request&)) {
  const ronde_tensor c_input = input.to_c();
  const ronde_tensor c_output = output.to_c();
  Request request(which, options);
  request.set_inputs({&c_input, 1});
  request.set_outputs({&c_output, 1}, options);
  request.set_reduction(options);
  return finish(request);
}
}  // namespace detail

/// Inclusive: this rank gets the reduction of the inputs of all ranks up to and including itself, in rank order.
/// `output` has the input's type and shape, which are the same on every rank, and may be its memory. Raises as
/// allreduce().
inline void scan(const ConstTensorView& input, const TensorView& output, const ScanOptions& options) {
  detail::scan(RONDE_SCAN, input, output, options, detail::execute);
}
inline Ticket scan_async(const ConstTensorView& input, const TensorView& output, const ScanOptions& options) {
  return detail::scan(RONDE_SCAN, input, output, options, detail::submit);
}
/// In place.
inline void scan(const TensorView& tensor, const ScanOptions& options) { scan(tensor, tensor, options); }
inline Ticket scan_async(const TensorView& tensor, const ScanOptions& options) {
  return scan_async(tensor, tensor, options);
}

/// Exclusive: of the ranks before this one; rank 0 gets the neutral value of the reduction (0 for sum,
/// 1 for product, all bits for bit_and, 0 for bit_or and bit_xor, an infinity or the type's extreme for min and max).
inline void exscan(const ConstTensorView& input, const TensorView& output, const ScanOptions& options) {
  detail::scan(RONDE_EXSCAN, input, output, options, detail::execute);
}
inline Ticket exscan_async(const ConstTensorView& input, const TensorView& output, const ScanOptions& options) {
  return detail::scan(RONDE_EXSCAN, input, output, options, detail::submit);
}
/// In place.
inline void exscan(const TensorView& tensor, const ScanOptions& options) { exscan(tensor, tensor, options); }
inline Ticket exscan_async(const TensorView& tensor, const ScanOptions& options) {
  return exscan_async(tensor, tensor, options);
}

}  // namespace v0
}  // namespace ronde
