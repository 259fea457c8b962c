// The classes of gradients.h, as C++ sees them. All fields are Python's too; the comments are in python/ronde/torch.
#pragma once

#include "python.h"

namespace ronde::python {

struct Unit {
  PyObject_HEAD PyObject* place;
  PyObject* parameter;  // the first
  long layout;
  Py_ssize_t n_bytes;
  char is_single;
  char is_private;
};

struct Place {
  PyObject_HEAD PyObject* view;
  PyObject* storage;
  PyObject* storage_number;
  long long address;
  long long number;
  long own_references;
  long own_holders;
  long own_users;
  long own_storage_references;
  char busy;
};

struct Member {
  PyObject_HEAD PyObject* parameter;
  PyObject* unit;
  long round;
  long left;
};

struct Ready {
  PyObject_HEAD PyObject* units;
  Py_ssize_t n_bytes;
};

struct Arrivals {
  PyObject_HEAD PyObject* process_set;
  PyObject* group;
  PyObject* ready;    // by the number of the pass
  PyObject* origins;  // None, but with sparse_as_dense
  long round;
  long passes;
  long in_turn;  // how many calls of Python's are at it
  char is_left;
};

// The classes themselves; null before add_gradient_types().
struct Types {
  PyTypeObject* unit;
  PyTypeObject* place;
  PyTypeObject* member;
  PyTypeObject* ready;
  PyTypeObject* arrivals;
};
extern Types types;

inline constexpr long kUnknownLayout = 0;
inline constexpr long kDense = 255;
inline constexpr Py_ssize_t kTogether = 1024 * 1024;  // bytes, as TOGETHER in _passes.py

template <typename Part>
Part* as(PyObject* object, PyTypeObject* type) {
  return object != nullptr && PyObject_TypeCheck(object, type) != 0 ? reinterpret_cast<Part*>(object) : nullptr;
}

}  // namespace ronde::python
