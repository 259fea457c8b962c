#include "memory.h"

#include <cstddef>
#include <cstring>

#include "callbacks.h"

namespace ronde::python {

namespace {

PyTypeObject* array_type;
PyTypeObject* tensor_type;
PyTypeObject* parameter_type;
int (*tensor_from_python)(void* object, dlpack::Tensor* out);

constexpr ronde_dtype kNone = -1;

ronde_dtype integer_of(size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1: return is_signed ? RONDE_INT8 : RONDE_UINT8;
    case 2: return is_signed ? RONDE_INT16 : RONDE_UINT16;
    case 4: return is_signed ? RONDE_INT32 : RONDE_UINT32;
    case 8: return is_signed ? RONDE_INT64 : RONDE_UINT64;
    default: return kNone;
  }
}

ronde_dtype complex_of(size_t bytes) { return bytes == 8 ? RONDE_COMPLEX64 : bytes == 16 ? RONDE_COMPLEX128 : kNone; }

ronde_dtype float_of(size_t bytes) {
  return bytes == 2 ? RONDE_FLOAT16 : bytes == 4 ? RONDE_FLOAT32 : bytes == 8 ? RONDE_FLOAT64 : kNone;
}

// Of a format of the buffer protocol in the machine's own byte order.
ronde_dtype dtype_of(const char* format, size_t bytes) {
  if (std::strcmp(format, "Zf") == 0 || std::strcmp(format, "Zd") == 0) {
    return complex_of(bytes);
  }
  if (format[0] == '\0' || format[1] != '\0') {
    return kNone;
  }
  switch (format[0]) {
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return integer_of(bytes, true);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return integer_of(bytes, false);
    case 'e':
    case 'f':
    case 'd': return float_of(bytes);
    case '?': return RONDE_BOOL;
    default: return kNone;
  }
}

ronde_dtype dtype_of(const dlpack::Tensor& tensor) {
  if (tensor.lanes != 1) {
    return kNone;
  }
  const size_t bytes = tensor.bits / 8;
  switch (tensor.code) {
    case dlpack::kInt: return integer_of(bytes, true);
    case dlpack::kUint: return integer_of(bytes, false);
    case dlpack::kFloat: return float_of(bytes);
    case dlpack::kBfloat: return bytes == 2 ? RONDE_BFLOAT16 : kNone;
    case dlpack::kBool: return bytes == 1 ? RONDE_BOOL : kNone;
    case dlpack::kFloat8E4m3fn: return RONDE_FLOAT8_E4M3;
    case dlpack::kFloat8E5m2: return RONDE_FLOAT8_E5M2;
    default: return kNone;  // of complex numbers Python asks whether they are conjugates
  }
}

// Whether it has elements, and they follow each other.
bool is_contiguous(const dlpack::Tensor& tensor) {
  int64_t expected = 1;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    const int64_t size = tensor.shape[i];
    if (size == 0 || (size != 1 && tensor.strides != nullptr && tensor.strides[i] != expected)) {
      return false;
    }
    expected *= size;
  }
  return true;
}

}  // namespace

bool Memory::read_array(PyObject* array) {
  if (Py_TYPE(array) != array_type) {
    return false;
  }
  if (PyObject_GetBuffer(array, &buffer_, PyBUF_CONTIG | PyBUF_FORMAT) != 0) {  // read-only or not contiguous
    PyErr_Clear();
    return false;
  }
  has_buffer_ = true;
  const auto bytes = static_cast<size_t>(buffer_.itemsize);
  const ronde_dtype dtype = buffer_.format == nullptr ? kNone : dtype_of(buffer_.format, bytes);
  const bool is_aligned = bytes > 0 && reinterpret_cast<uintptr_t>(buffer_.buf) % bytes == 0;
  if (dtype == kNone || !is_aligned || buffer_.len == 0 || buffer_.ndim > 32) {
    return false;
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  if (buffer_.ndim > 0) {
    std::memcpy(shape_, buffer_.shape, static_cast<size_t>(buffer_.ndim) * sizeof(int64_t));
  }
  tensor_ = {sizeof(ronde_tensor), buffer_.buf, shape_, buffer_.ndim, dtype, RONDE_HOST, 0};
  return true;
}

bool Memory::read_tensor(PyObject* tensor) {
  dlpack::Tensor seen = {};
  if (!look_at_tensor(tensor, seen)) {
    return false;
  }
  const ronde_dtype dtype = dtype_of(seen);
  if (dtype == kNone || seen.device_type != dlpack::kCpu || seen.ndim > 32 || seen.data == nullptr ||
      !is_contiguous(seen)) {
    return false;
  }
  if (may_be_negative(tensor)) {
    return false;
  }
  if (seen.ndim > 0) {
    std::memcpy(shape_, seen.shape, static_cast<size_t>(seen.ndim) * sizeof(int64_t));
  }
  tensor_ = {
      sizeof(ronde_tensor), static_cast<char*>(seen.data) + seen.byte_offset, shape_, seen.ndim, dtype, RONDE_HOST, 0};
  return true;
}

PyObject* Memory::keeper(PyObject* owner) const {
  if (!has_buffer_) {
    return PyObject_CallMethodObjArgs(owner, callbacks.storage, nullptr);
  }
  Py_INCREF(owner);
  return owner;
}

bool look_at_tensor(PyObject* tensor, dlpack::Tensor& seen) {
  if (Py_TYPE(tensor) != tensor_type && Py_TYPE(tensor) != parameter_type) {
    return false;
  }
  if (tensor_from_python(tensor, &seen) != 0) {  // a sparse one, or one without memory
    PyErr_Clear();
    return false;
  }
  return true;
}

bool may_be_negative(PyObject* tensor) {  // what DLPack does not say
  const Owned is_neg(PyObject_CallMethodObjArgs(tensor, callbacks.is_neg, nullptr));
  PyErr_Clear();
  return is_neg.get() != Py_False;
}

void learn_array(PyObject* type) {
  Py_INCREF(type);
  Py_XDECREF(reinterpret_cast<PyObject*>(array_type));
  array_type = reinterpret_cast<PyTypeObject*>(type);
}

bool learn_tensors(PyObject* tensor, PyObject* parameter, PyObject* capsule) {
  auto* api = static_cast<dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  if (api == nullptr) {
    PyErr_Clear();
    return false;
  }
  if (api->header.major != dlpack::kMajorVersion || api->tensor_from_python == nullptr) {
    return false;
  }
  Py_INCREF(tensor);
  Py_INCREF(parameter);
  tensor_type = reinterpret_cast<PyTypeObject*>(tensor);
  parameter_type = reinterpret_cast<PyTypeObject*>(parameter);
  tensor_from_python = api->tensor_from_python;
  return true;
}

}  // namespace ronde::python
