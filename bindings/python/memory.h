// Arrays and tensors as memory that the engine can read and write: the plain ones, which most are. Of others Python
// takes care.
#pragma once

#include <ronde/ronde.h>

#include <cstdint>

#include "dlpack.h"
#include "python.h"

namespace ronde::python {

// Contiguous memory, written to in place; valid while keeper() is, of an array while this object lives.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (has_buffer_) {
      PyBuffer_Release(&buffer_);
    }
  }

  // Each: false, without an exception, for what is not as plain as it takes.
  bool read_array(PyObject* array);
  bool read_tensor(PyObject* tensor);

  const ronde_tensor& tensor() const { return tensor_; }
  // What keeps the memory, a new reference: of a tensor its storage, since the program may give the tensor another one
  // (`tensor.data = ...`). `owner`: what was read. Null with an exception.
  PyObject* keeper(PyObject* owner) const;

 private:
  bool has_buffer_ = false;
  Py_buffer buffer_ = {};
  int64_t shape_[32] = {};
  ronde_tensor tensor_ = {};
};

// The memory of a tensor of PyTorch's own classes, whatever its layout; false, without an exception, for another's and
// where there is none. Requires: learn_tensors() has succeeded.
bool look_at_tensor(PyObject* tensor, dlpack::Tensor& seen);

// Whether its values are the negatives of what lies in its memory, or that cannot be said. Leaves no exception.
bool may_be_negative(PyObject* tensor);

// Says which class is NumPy's array.
void learn_array(PyObject* type);

// Says which classes are PyTorch's tensors, and gives the capsule of its `__dlpack_c_exchange_api__`. False, without an
// exception, if that is of a version that is not known here.
bool learn_tensors(PyObject* tensor, PyObject* parameter, PyObject* capsule);

}  // namespace ronde::python
