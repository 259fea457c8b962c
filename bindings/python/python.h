// CPython's limited API, and the little that makes it safe to use from C++.
//
// This folder is compiled without exceptions: a daemon thread that asks for the interpreter's lock while the
// interpreter ends is unwound by the kernel's means, and must then run no destructor of ours.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace ronde::python {

// A reference that is given back at the end of its scope; of nothing, too.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    Py_XDECREF(std::exchange(object_, std::exchange(other.object_, nullptr)));
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Another reference to what somebody else holds now, and may let go while Python code runs.
inline Owned shared(PyObject* borrowed) {
  Py_XINCREF(borrowed);
  return Owned(borrowed);
}

// The exception that is set, put aside and set again at the end of the scope, in place of any other.
class ExceptionAside {
 public:
  ExceptionAside() { PyErr_Fetch(&type_, &value_, &trace_); }
  ExceptionAside(const ExceptionAside&) = delete;
  ExceptionAside& operator=(const ExceptionAside&) = delete;
  ~ExceptionAside() { PyErr_Restore(type_, value_, trace_); }

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* trace_ = nullptr;
};

}  // namespace ronde::python
