#include "submit.h"

#include <cstdint>
#include <memory>
#include <new>

#include "call_site.h"
#include "callbacks.h"
#include "engine.h"
#include "ticket.h"

namespace ronde::python {

namespace {

constexpr Py_ssize_t kMostDimensions = 32;

enum Argument {
  kOp,
  kInputs,
  kOutputs,
  kReduceOp,
  kRoot,
  kPrescale,
  kPostscale,
  kGroup,
  kSplits,
  kTag,
  kTimeout,
  kEngine,
  kWait,
  kCount
};

// Up to `kHere` of them without asking for memory, which one tensor and its shape need; all zero.
template <typename T, Py_ssize_t kHere>
class Few {
 public:
  // False with an exception. Once.
  bool resize(Py_ssize_t count) {
    if (count > kHere) {
      more_.reset(new (std::nothrow) T[static_cast<size_t>(count)]());
      if (!more_) {
        PyErr_NoMemory();
        return false;
      }
    }
    return true;
  }
  T* data() { return more_ ? more_.get() : here_; }

 private:
  T here_[kHere] = {};
  std::unique_ptr<T[]> more_;
};

bool read_int32(PyObject* value, const char* what, int32_t& place) {
  const long number = PyLong_AsLong(value);
  if (number == -1 && PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_OverflowError) == 0) {
    return false;
  }
  if (PyErr_Occurred() != nullptr || number < INT32_MIN || number > INT32_MAX) {
    PyErr_Clear();
    const Owned name(PyUnicode_FromString(what));
    const Owned refused(name ? PyObject_CallFunctionObjArgs(callbacks.require_int32, value, name.get(), nullptr)
                             : nullptr);
    return false;  // it has raised
  }
  place = static_cast<int32_t>(number);
  return true;
}

bool read_double(PyObject* value, double& place) {
  place = PyFloat_AsDouble(value);
  return place != -1.0 || PyErr_Occurred() == nullptr;
}

bool read_pointer(PyObject* value, void*& place) {
  place = value == Py_None ? nullptr : PyLong_AsVoidPtr(value);
  return place != nullptr || PyErr_Occurred() == nullptr;
}

bool read_int64(PyObject* sequence, Py_ssize_t i, int64_t& place) {
  const Owned item(PySequence_GetItem(sequence, i));
  place = item ? PyLong_AsLongLong(item.get()) : -1;
  return place != -1 || PyErr_Occurred() == nullptr;
}

class Described {
 public:
  bool read(PyObject* const* arguments) {
    request_.struct_size = sizeof(request_);
    request_.taken = &taken_;
    return read_int32(arguments[kOp], "operation", request_.op) &&
           read_int32(arguments[kReduceOp], "op", request_.reduce_op) &&
           read_int32(arguments[kRoot], "root rank", request_.root) &&
           read_int32(arguments[kGroup], "process set", request_.group) &&
           read_int32(arguments[kTag], "tag", request_.tag) && read_double(arguments[kPrescale], request_.prescale) &&
           read_double(arguments[kPostscale], request_.postscale) &&
           read_double(arguments[kTimeout], request_.timeout_s) && read_splits(arguments[kSplits]) &&
           read_inputs(arguments[kInputs]) && read_outputs(arguments[kOutputs]) && read_call_site();
  }

  // A text, or a call without a name; either may have a number.
  bool read_name(PyObject* name) {
    if (PyUnicode_Check(name) != 0) {
      Py_ssize_t bytes = 0;
      request_.name = PyUnicode_AsUTF8AndSize(name, &bytes);
      request_.name_bytes = static_cast<size_t>(bytes);
      if (request_.name == nullptr) {
        return false;
      }
    }
    if (PyUnicode_CheckExact(name) == 0) {
      const Owned number(PyObject_GetAttr(name, callbacks.number));
      if (!number && PyErr_ExceptionMatches(PyExc_AttributeError) != 0) {
        PyErr_Clear();
        return true;
      }
      request_.call_number = number ? PyLong_AsUnsignedLongLong(number.get()) : 0;
      return PyErr_Occurred() == nullptr;
    }
    return true;
  }

  const ronde_request* request() const { return &request_; }
  uint64_t taken() const { return taken_; }

 private:
  bool read_splits(PyObject* splits) {
    if (splits == Py_None) {
      return true;
    }
    const Py_ssize_t count = PySequence_Size(splits);
    if (count < 0 || !splits_.resize(count)) {
      return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!read_int64(splits, i, splits_.data()[i])) {
        return false;
      }
    }
    request_.splits = splits_.data();
    request_.splits_count = static_cast<size_t>(count);
    return true;
  }

  bool read_inputs(PyObject* views) {
    count_ = PySequence_Size(views);
    if (count_ < 0 || !inputs_.resize(count_) || !shapes_.resize(count_ * kMostDimensions)) {
      return false;
    }
    for (Py_ssize_t i = 0; i < count_; ++i) {
      const Owned view(PySequence_GetItem(views, i));
      if (!view || !read_view(view.get(), shapes_.data() + i * kMostDimensions, inputs_.data()[i])) {
        return false;
      }
    }
    request_.inputs = count_ == 0 ? nullptr : inputs_.data();
    request_.count = static_cast<size_t>(count_);
    return true;
  }

  static bool read_view(PyObject* view, int64_t* shape, ronde_tensor& tensor) {
    if (PyTuple_Check(view) == 0 || PyTuple_Size(view) != 3) {
      PyErr_SetString(PyExc_TypeError, "a view is an address, a shape and a type");
      return false;
    }
    PyObject* extents = PyTuple_GetItem(view, 1);
    const Py_ssize_t ndim = PySequence_Size(extents);
    if (ndim > kMostDimensions) {
      PyErr_Format(PyExc_ValueError, "a tensor may have %zd dimensions at most, this one has %zd", kMostDimensions,
                   ndim);
    }
    if (ndim < 0 || ndim > kMostDimensions) {
      return false;
    }
    for (Py_ssize_t i = 0; i < ndim; ++i) {
      if (!read_int64(extents, i, shape[i])) {
        return false;
      }
    }
    tensor.struct_size = sizeof(tensor);
    tensor.shape = shape;
    tensor.ndim = static_cast<int32_t>(ndim);
    return read_pointer(PyTuple_GetItem(view, 0), tensor.data) &&
           read_int32(PyTuple_GetItem(view, 2), "type", tensor.dtype);
  }

  // None, or an address for each input; of one that is the input's, in place.
  bool read_outputs(PyObject* addresses) {
    if (addresses == Py_None || count_ == 0) {
      return true;
    }
    if (!outputs_.resize(count_)) {
      return false;
    }
    bool are_elsewhere = count_ > 1;
    for (Py_ssize_t i = 0; i < count_; ++i) {
      const Owned address(PySequence_GetItem(addresses, i));
      outputs_.data()[i] = inputs_.data()[i];
      if (!address || !read_pointer(address.get(), outputs_.data()[i].data)) {
        return false;
      }
      are_elsewhere = are_elsewhere || outputs_.data()[i].data != inputs_.data()[i].data;
    }
    request_.outputs = are_elsewhere ? outputs_.data() : nullptr;
    return true;
  }

  bool read_call_site() {
    request_.call_site = known_call_site();
    if (request_.call_site == kNotKnown) {
      const Owned found(PyObject_CallFunctionObjArgs(callbacks.call_site, nullptr));
      return found && read_int32(found.get(), "place", request_.call_site);
    }
    return true;
  }

  Py_ssize_t count_ = 0;
  Few<ronde_tensor, 1> inputs_;
  Few<ronde_tensor, 1> outputs_;
  Few<int64_t, kMostDimensions> shapes_;
  Few<int64_t, 8> splits_;
  uint64_t taken_ = 0;
  ronde_request request_ = {};
};

}  // namespace

PyObject* submit_ticket(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  auto* operation = reinterpret_cast<Ticket*>(self);
  if (count != kCount) {
    PyErr_Format(PyExc_TypeError, "submit takes %d arguments", static_cast<int>(kCount));
    return nullptr;
  }
  if (!has_engine()) {  // the first call of all
    const Owned loaded(PyObject_CallFunctionObjArgs(callbacks.library, nullptr));
    if (!loaded) {
      return nullptr;
    }
  }
  Described described;
  void* of = nullptr;
  PyObject* name = name_of(operation);
  if (name == nullptr || !described.read(arguments) || !described.read_name(name) ||
      !read_pointer(arguments[kEngine], of)) {
    return nullptr;
  }
  const int waits = PyObject_IsTrue(arguments[kWait]);
  auto* group = static_cast<ronde_engine*>(of);
  ronde_status status = RONDE_OK;
  operation->is_told = true;
  Py_BEGIN_ALLOW_THREADS;
  if (waits != 0) {
    status = engine.execute(group, described.request(), kSliceS, &operation->ticket);
  } else {
    status = engine.submit(group, described.request(), &operation->ticket);
  }
  Py_END_ALLOW_THREADS;
  operation->number = described.taken();
  return PyLong_FromLong(status);
}

}  // namespace ronde::python
