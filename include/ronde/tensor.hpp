// Part of <ronde/ronde.hpp>: element types and views of tensors.
#pragma once

#include <ronde/ronde.h>
#include <ronde/error.hpp>

#include <array>
#include <complex>
#include <concepts>
#include <cstdint>
#include <functional>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __has_include(<stdfloat>)
#include <stdfloat>
#endif

namespace ronde {
inline namespace v0 {

/// Element types.
enum class DType : ronde_dtype {
  uint8 = RONDE_UINT8,
  int8 = RONDE_INT8,
  uint16 = RONDE_UINT16,
  int16 = RONDE_INT16,
  int32 = RONDE_INT32,
  int64 = RONDE_INT64,
  float16 = RONDE_FLOAT16,
  float32 = RONDE_FLOAT32,
  float64 = RONDE_FLOAT64,
  boolean = RONDE_BOOL,
  bfloat16 = RONDE_BFLOAT16,
  complex64 = RONDE_COMPLEX64,
  complex128 = RONDE_COMPLEX128,
  float8_e4m3 = RONDE_FLOAT8_E4M3,
  float8_e5m2 = RONDE_FLOAT8_E5M2,
  uint32 = RONDE_UINT32,
  uint64 = RONDE_UINT64,
};

/// The element type that stands for a C++ type. Specialise it for half-precision types of your own:
/// `template <> struct ronde::DTypeOf<my::half> : ronde::DTypeIs<ronde::DType::float16> {};`
template <typename T>
struct DTypeOf {};

template <DType dtype>
struct DTypeIs {
  static constexpr DType value = dtype;
};

// clang-format off
template <> struct DTypeOf<float> : DTypeIs<DType::float32> {};
template <> struct DTypeOf<double> : DTypeIs<DType::float64> {};
template <> struct DTypeOf<unsigned char> : DTypeIs<DType::uint8> {};
template <> struct DTypeOf<signed char> : DTypeIs<DType::int8> {};
template <> struct DTypeOf<unsigned short> : DTypeIs<DType::uint16> {};
template <> struct DTypeOf<short> : DTypeIs<DType::int16> {};
template <> struct DTypeOf<int> : DTypeIs<DType::int32> {};
template <> struct DTypeOf<unsigned int> : DTypeIs<DType::uint32> {};
template <> struct DTypeOf<long> : DTypeIs<sizeof(long) == 8 ? DType::int64 : DType::int32> {};
template <> struct DTypeOf<long long> : DTypeIs<DType::int64> {};
template <> struct DTypeOf<unsigned long> : DTypeIs<sizeof(long) == 8 ? DType::uint64 : DType::uint32> {};
template <> struct DTypeOf<unsigned long long> : DTypeIs<DType::uint64> {};
template <> struct DTypeOf<bool> : DTypeIs<DType::boolean> {};
template <> struct DTypeOf<std::complex<float>> : DTypeIs<DType::complex64> {};
template <> struct DTypeOf<std::complex<double>> : DTypeIs<DType::complex128> {};
#ifdef __STDCPP_FLOAT16_T__
template <> struct DTypeOf<std::float16_t> : DTypeIs<DType::float16> {};
#endif
#ifdef __STDCPP_BFLOAT16_T__
template <> struct DTypeOf<std::bfloat16_t> : DTypeIs<DType::bfloat16> {};
#endif
// clang-format on

/// A C++ type whose values Ronde can carry.
template <typename T>
concept Element = requires {
  { DTypeOf<std::remove_const_t<T>>::value } -> std::convertible_to<DType>;
};

/// Contiguous elements in the caller's memory, with a shape, row-major; owns nothing. Made of anything contiguous: a
/// std::vector, a std::span, an array.
template <bool constant>
class BasicTensorView {
  template <typename Range>
  using ElementOf = std::remove_reference_t<std::ranges::range_reference_t<Range>>;

 public:
  /// One dimension, as long as `range` has elements. Implicit: it is the usual way to pass data.
  template <std::ranges::contiguous_range Range>
  requires Element<ElementOf<Range>> &&
      (constant || !std::is_const_v<ElementOf<Range>>)BasicTensorView(Range&& range)  // NOLINT: converts on purpose
      : data_(std::ranges::data(range)),
        dtype_(DTypeOf<std::remove_const_t<ElementOf<Range>>>::value),
        extents_{static_cast<std::int64_t>(std::ranges::size(range))} {}

  /// The same elements in `shape`. Throws Code::invalid_argument if it does not have as many as `range`.
  template <std::ranges::contiguous_range Range>
  BasicTensorView(Range&& range, std::vector<std::int64_t> shape) : BasicTensorView(range) {
    const std::int64_t wanted = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    if (wanted != extents_[0]) {
      throw Error(Code::invalid_argument,
                  "the shape has " + std::to_string(wanted) + " elements, the memory " + std::to_string(extents_[0]));
    }
    shape_ = std::move(shape);
    shaped_ = true;
  }

  /// Elements of a type that is known at run time: as many as `shape` says, of which the product must not overflow.
  BasicTensorView(std::conditional_t<constant, const void*, void*> data, DType dtype, std::vector<std::int64_t> shape)
      : data_(data), dtype_(dtype), extents_{0}, shape_(std::move(shape)), shaped_(true) {}

  /// What is writable can be read.
  template <bool other_constant>
  requires(constant && !other_constant)
      BasicTensorView(const BasicTensorView<other_constant>& other)  // NOLINT: converts on purpose
      : data_(other.data_),
        dtype_(other.dtype_),
        extents_(other.extents_),
        shape_(other.shape_),
        shaped_(other.shaped_) {}

  DType dtype() const noexcept { return dtype_; }
  /// Valid as long as this view.
  std::span<const std::int64_t> shape() const noexcept {
    return shaped_ ? std::span<const std::int64_t>(shape_) : std::span<const std::int64_t>(extents_);
  }
  /// For the C interface; valid as long as this view.
  ronde_tensor to_c() const noexcept {
    ronde_tensor tensor{};
    tensor.struct_size = sizeof(tensor);
    tensor.data = const_cast<void*>(static_cast<const void*>(data_));  // the library only reads what is an input
    tensor.shape = shape().data();
    tensor.ndim = static_cast<std::int32_t>(shape().size());
    tensor.dtype = static_cast<ronde_dtype>(dtype_);
    tensor.device = RONDE_HOST;
    return tensor;
  }

 private:
  friend class BasicTensorView<true>;
  std::conditional_t<constant, const void*, void*> data_;
  DType dtype_;
  std::array<std::int64_t, 1> extents_;  // the usual one dimension costs no allocation
  std::vector<std::int64_t> shape_ = {};
  bool shaped_ = false;
};

using TensorView = BasicTensorView<false>;
using ConstTensorView = BasicTensorView<true>;

}  // namespace v0
}  // namespace ronde
