// Part of <ronde/torch.hpp>: libtorch's tensors as Ronde's views, and operations under way on them.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ronde/ronde.hpp>

namespace ronde {
inline namespace v0 {
namespace torch {

namespace detail {

/// The element type of Ronde's that stands for libtorch's, if there is one.
inline std::optional<DType> find_dtype(at::ScalarType type) {
  // clang-format off
  switch (type) {
    case at::kByte: return DType::uint8;
    case at::kChar: return DType::int8;
    case at::kShort: return DType::int16;
    case at::kInt: return DType::int32;
    case at::kLong: return DType::int64;
    case at::kHalf: return DType::float16;
    case at::kBFloat16: return DType::bfloat16;
    case at::kFloat: return DType::float32;
    case at::kDouble: return DType::float64;
    case at::kBool: return DType::boolean;
    case at::kComplexFloat: return DType::complex64;
    case at::kComplexDouble: return DType::complex128;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    case at::kFloat8_e4m3fn: return DType::float8_e4m3;
    case at::kFloat8_e5m2: return DType::float8_e5m2;
#endif
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case at::kUInt16: return DType::uint16;
    case at::kUInt32: return DType::uint32;
    case at::kUInt64: return DType::uint64;
#endif
    default: return std::nullopt;
  }
  // clang-format on
}

inline std::string no_such_type(at::ScalarType type) {
  return std::string("tensors of ") + c10::toString(type) + " are not reduced or moved";
}

}  // namespace detail

/// The element type of Ronde's that stands for libtorch's. Throws Code::invalid_argument if there is none.
inline DType dtype_of(at::ScalarType type) {
  if (const std::optional<DType> found = detail::find_dtype(type)) {
    return *found;
  }
  throw Error(Code::invalid_argument, detail::no_such_type(type));
}

/// The reverse. Throws Code::invalid_argument where this libtorch has no such type.
inline at::ScalarType scalar_type_of(DType dtype) {
  // clang-format off
  switch (dtype) {
    case DType::uint8: return at::kByte;
    case DType::int8: return at::kChar;
    case DType::int16: return at::kShort;
    case DType::int32: return at::kInt;
    case DType::int64: return at::kLong;
    case DType::float16: return at::kHalf;
    case DType::bfloat16: return at::kBFloat16;
    case DType::float32: return at::kFloat;
    case DType::float64: return at::kDouble;
    case DType::boolean: return at::kBool;
    case DType::complex64: return at::kComplexFloat;
    case DType::complex128: return at::kComplexDouble;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    case DType::float8_e4m3: return at::kFloat8_e4m3fn;
    case DType::float8_e5m2: return at::kFloat8_e5m2;
#endif
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case DType::uint16: return at::kUInt16;
    case DType::uint32: return at::kUInt32;
    case DType::uint64: return at::kUInt64;
#endif
    default: break;
  }
  // clang-format on
  throw Error(Code::invalid_argument, "this libtorch has no such element type");
}

namespace detail {

/// Why a tensor cannot take part; empty if it can.
inline std::string why_not(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return "the tensor is undefined";
  }
  if (tensor.layout() != at::kStrided) {
    return "the tensor is sparse: give its values and indices, or tensor.to_dense()";
  }
  if (!tensor.device().is_cpu()) {
    return "the tensor lies on " + tensor.device().str() + ": give tensor.cpu(), and copy the result back";
  }
  return find_dtype(tensor.scalar_type()) ? std::string() : no_such_type(tensor.scalar_type());
}

/// Refuses a call as ronde::detail::refuse(), which tells the other ranks of one without a name.
template <typename Options>
void check(const at::Tensor& tensor, const Options& options) {
  if (const std::string why = why_not(tensor); !why.empty()) {
    ronde::detail::refuse(options, why);
  }
}

/// The same for a tensor that is written.
template <typename Options>
void check_written(const at::Tensor& tensor, const Options& options) {
  check(tensor, options);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    ronde::detail::refuse(
        options, "several elements of the tensor have one place in memory (it was expanded): give tensor.clone()");
  }
}

inline bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

/// The tensor itself, or a copy with its values in row-major order.
inline at::Tensor plain(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

inline std::vector<std::int64_t> shape_of(const at::Tensor& tensor) { return tensor.sizes().vec(); }
/// Of a plain tensor, which must live as long as the view is used.
inline ConstTensorView input_view(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), dtype_of(tensor.scalar_type()), shape_of(tensor)};
}
inline TensorView output_view(const at::Tensor& tensor) {
  return {tensor.data_ptr(), dtype_of(tensor.scalar_type()), shape_of(tensor)};
}

/// Memory of a result that goes into a tensor of the caller's: that tensor's own, or a plain one that is copied there
/// once it is done.
class Target {
 public:
  explicit Target(const at::Tensor& tensor)
      : tensor_(tensor), memory_(is_plain(tensor) ? tensor.detach() : plain(tensor)) {
    if (!tensor.is_inference()) {
      tensor.unsafeGetTensorImpl()->bump_version();  // autograd must not use what it had saved of it
    }
  }
  const at::Tensor& memory() const { return memory_; }
  void finish() const {
    if (!memory_.is_same(tensor_) && memory_.data_ptr() != tensor_.data_ptr()) {
      const at::NoGradGuard no_grad;
      tensor_.detach().copy_(memory_);
    }
  }
  const at::Tensor& tensor() const { return tensor_; }

 private:
  at::Tensor tensor_;
  at::Tensor memory_;
};

/// What the library has made as the output of a ticket that has succeeded, without a copy: the tensor keeps the ticket.
inline at::Tensor output_of(std::shared_ptr<Ticket> ticket) {
  void* data = nullptr;
  const std::int64_t* extents = nullptr;
  std::int32_t ndim = 0;
  ronde_dtype dtype = 0;
  ronde::detail::check(ronde_ticket_output(ticket->handle(), 0, &data, &extents, &ndim, &dtype));
  const std::vector<std::int64_t> shape(extents, extents + ndim);
  const at::TensorOptions options = at::TensorOptions().dtype(scalar_type_of(static_cast<DType>(dtype)));
  if (data == nullptr) {
    return at::empty(shape, options);  // no rows
  }
  return ::torch::from_blob(
      data, shape, [kept = std::move(ticket)](void*) {}, options);
}

}  // namespace detail

/// An operation under way, or finished. Keeps its tensors. Move-only; its destructor waits until it is done (it does
/// not cancel), and results are then in their tensors, also those of a transposed one, say. One thread at a time.
class Work {
 public:
  /// `kept`: tensors that must live until it is done. `finish`: makes the results of a success; called once, by the
  /// first wait().
  using Finish = std::function<std::vector<at::Tensor>(const std::shared_ptr<Ticket>&)>;
  Work(Ticket ticket, std::vector<at::Tensor> kept, Finish finish)
      : kept_(std::move(kept)), finish_(std::move(finish)), ticket_(std::make_shared<Ticket>(std::move(ticket))) {}

  Work(Work&& other) noexcept
      : kept_(std::move(other.kept_)),
        results_(std::move(other.results_)),
        finish_(std::exchange(other.finish_, nullptr)),
        ticket_(std::move(other.ticket_)) {}
  ~Work() { finish(); }
  Work& operator=(Work&& other) noexcept {
    finish();
    ticket_ = std::move(other.ticket_);  // first: waits for what was under way here, before its tensors go
    kept_ = std::move(other.kept_);
    results_ = std::move(other.results_);
    finish_ = std::exchange(other.finish_, nullptr);
    return *this;
  }

  /// Returns when it is done: the result, the first of several. Throws its error if it failed.
  at::Tensor wait() { return wait_all().empty() ? at::Tensor() : results_.front(); }
  /// All of them, in the order of the inputs.
  const std::vector<at::Tensor>& wait_all() {
    if (finish_) {
      ticket_->wait();
      results_ = std::exchange(finish_, nullptr)(ticket_);
      kept_.clear();
    }
    return results_;
  }
  /// If so, results are in their tensors.
  bool is_done() {
    const bool is_over = ticket_->is_done();
    if (is_over) {
      finish();
    }
    return is_over;
  }
  /// Ticket::cancel().
  void cancel() const { ticket_->cancel(); }
  const Ticket& ticket() const { return *ticket_; }

 private:
  /// As wait_all(); an error stays for that.
  void finish() noexcept {
    try {
      if (finish_) {
        wait_all();
      }
    } catch (...) {
      // Nobody may ask; who does hears it from wait().
    }
  }

  std::vector<at::Tensor> kept_;
  std::vector<at::Tensor> results_;
  Finish finish_;
  std::shared_ptr<Ticket> ticket_;  ///< the last member: its end waits, before the tensors go
};

}  // namespace torch
}  // namespace v0
}  // namespace ronde
