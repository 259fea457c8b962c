// Tensor: a view of somebody else's memory with type and shape; owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ronde {

/// Element types. The numbers are those of `ronde_dtype` in <ronde/ronde.h> and travel between ranks.
enum class DType : std::int32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  boolean = 9,
  bfloat16 = 10,
  complex64 = 11,
  complex128 = 12,
  float8_e4m3 = 13,
  float8_e5m2 = 14,
  uint32 = 15,
  uint64 = 16,
};

/// Bytes of one element; 0 for a number that names no type.
std::size_t dtype_bytes(DType dtype);
/// "float32", ...; "unknown" for a number that names no type.
std::string_view dtype_name(DType dtype);
bool is_floating(DType dtype);
bool is_integer(DType dtype);
bool is_complex(DType dtype);

/// Extents, outermost first; empty is a scalar. All are >= 0.
using Shape = std::vector<std::int64_t>;

/// Number of elements; 1 for a scalar.
std::int64_t element_count(const Shape& shape);
/// "[2, 3]"
std::string shape_text(const Shape& shape);

enum class DeviceType : std::int32_t { host = 0, cuda = 1 };

struct Device {
  DeviceType type = DeviceType::host;
  std::int32_t index = 0;
  bool operator==(const Device&) const = default;
};

/// Contiguous, row-major. `data` may be null where there are no elements.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::float32;
  Shape shape;
  Device device;

  std::int64_t elements() const { return element_count(shape); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * dtype_bytes(dtype); }
};

}  // namespace ronde
