#include "types/tensor.h"

namespace ronde {

std::size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::uint8:
    case DType::int8:
    case DType::boolean:
    case DType::float8_e4m3:
    case DType::float8_e5m2: return 1;
    case DType::uint16:
    case DType::int16:
    case DType::float16:
    case DType::bfloat16: return 2;
    case DType::int32:
    case DType::uint32:
    case DType::float32: return 4;
    case DType::int64:
    case DType::uint64:
    case DType::float64:
    case DType::complex64: return 8;
    case DType::complex128: return 16;
  }
  return 0;
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::uint8: return "uint8";
    case DType::int8: return "int8";
    case DType::uint16: return "uint16";
    case DType::int16: return "int16";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::float16: return "float16";
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::boolean: return "bool";
    case DType::bfloat16: return "bfloat16";
    case DType::complex64: return "complex64";
    case DType::complex128: return "complex128";
    case DType::float8_e4m3: return "float8_e4m3";
    case DType::float8_e5m2: return "float8_e5m2";
    case DType::uint32: return "uint32";
    case DType::uint64: return "uint64";
  }
  return "unknown";
}

bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
    case DType::float64:
    case DType::float8_e4m3:
    case DType::float8_e5m2: return true;
    default: return false;
  }
}

bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::uint8:
    case DType::int8:
    case DType::uint16:
    case DType::int16:
    case DType::int32:
    case DType::int64:
    case DType::uint32:
    case DType::uint64: return true;
    default: return false;
  }
}

bool is_complex(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128; }

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) {
    count *= extent;
  }
  return count;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace ronde
