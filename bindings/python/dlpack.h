// The part of DLPack's C exchange interface that is used: a tensor's memory, without a capsule and without a Python
// call. After dlpack.h of DLPack 1.2 (Apache 2.0), from https://github.com/dmlc/dlpack; a producer of another major
// version is not asked.
#pragma once

#include <cstdint>

namespace ronde::python::dlpack {

inline constexpr uint32_t kMajorVersion = 1;
inline constexpr int32_t kCpu = 1;

enum Code : uint8_t {
  kInt = 0,
  kUint = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4m3fn = 10,
  kFloat8E5m2 = 12
};

struct Tensor {
  void* data;
  int32_t device_type;
  int32_t device_index;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;  // in elements
  uint64_t byte_offset;
};

struct Header {
  uint32_t major;
  uint32_t minor;
  Header* previous;
};

struct ExchangeApi {
  Header header;
  void* allocate;
  void* managed_from_python;
  void* managed_to_python;
  int (*tensor_from_python)(void* object, Tensor* out);  // 0, or -1 with an exception; may be null
  void* current_stream;
};

}  // namespace ronde::python::dlpack
