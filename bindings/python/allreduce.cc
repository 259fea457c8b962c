#include "allreduce.h"

#include <cstring>

#include "call_site.h"
#include "callbacks.h"
#include "engine.h"
#include "memory.h"
#include "ticket.h"

namespace ronde::python {

namespace {

constexpr char kKind[] = "allreduce.";
constexpr size_t kKindBytes = sizeof(kKind) - 1;
constexpr size_t kMostNameBytes = 512;  // longer ones are Python's

// What is said of a request apart from its tensor. Each `read`: false, without an exception, for what is not plain.
class Said {
 public:
  Said(PyObject* name, PyObject* op, PyObject* prescale, PyObject* postscale, PyObject* process_set) {
    request_.struct_size = sizeof(request_);
    request_.op = RONDE_ALLREDUCE;
    request_.step = -1;
    request_.taken = &taken_;
    is_plain_ = read_name(name) && read_op(op) && read_factor(prescale, request_.prescale) &&
                read_factor(postscale, request_.postscale) && read_group(process_set) && read_call_site();
  }

  bool is_plain() const { return is_plain_; }
  uint64_t taken() const { return taken_; }

  const ronde_request* on(const ronde_tensor& tensor) {
    request_.inputs = &tensor;
    request_.count = 1;
    return &request_;
  }
  int32_t group() const { return request_.group; }

 private:
  bool read_name(PyObject* name) {
    if (name == Py_None) {
      return true;
    }
    Py_ssize_t bytes = 0;
    const char* text = PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8AndSize(name, &bytes) : nullptr;
    if (text == nullptr || static_cast<size_t>(bytes) > kMostNameBytes) {
      PyErr_Clear();
      return false;
    }
    std::memcpy(name_, kKind, kKindBytes);
    std::memcpy(name_ + kKindBytes, text, static_cast<size_t>(bytes));
    request_.name = name_;
    request_.name_bytes = kKindBytes + static_cast<size_t>(bytes);
    return true;
  }

  bool read_op(PyObject* op) {
    if (op == Py_None) {
      request_.reduce_op = RONDE_AVERAGE;
      return true;
    }
    const long code = PyLong_CheckExact(op) ? PyLong_AsLong(op) : -1;
    PyErr_Clear();
    request_.reduce_op = static_cast<ronde_reduce_op>(code);
    return code >= RONDE_AVERAGE && code <= RONDE_BIT_XOR;
  }

  static bool read_factor(PyObject* factor, double& place) {
    place = PyFloat_CheckExact(factor) ? PyFloat_AsDouble(factor) : 0;
    return place != 0;
  }

  bool read_group(PyObject* process_set) {
    const Owned id(PyObject_GetAttr(process_set, callbacks.set_id));
    const long group = id && PyLong_CheckExact(id.get()) ? PyLong_AsLong(id.get()) : -1;
    PyErr_Clear();
    request_.group = static_cast<int32_t>(group);
    return group >= 0 && group <= INT32_MAX;
  }

  bool read_call_site() {
    request_.call_site = known_call_site();
    return request_.call_site != kNotKnown;
  }

  bool is_plain_ = false;
  char name_[kKindBytes + kMostNameBytes];
  uint64_t taken_ = 0;
  ronde_request request_ = {};
};

// What a call that has not become a ticket raises.
PyObject* refused(ronde_status status, PyObject* given, const Said& said) {
  const Owned group(PyLong_FromLong(said.group()));
  const Owned number(PyLong_FromUnsignedLongLong(said.taken()));
  const Owned name(group && number
                       ? PyObject_CallFunctionObjArgs(callbacks.name_of, given, group.get(), number.get(), nullptr)
                       : nullptr);
  return name ? raise_last_error(status, name.get()) : nullptr;
}

PyObject* finish(Said& said, const ronde_tensor& tensor, PyObject* memory, PyObject* given) {
  const ronde_request* request = said.on(tensor);
  ronde_ticket* ticket = nullptr;
  ronde_status status = RONDE_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = engine.execute(nullptr, request, kSliceS, &ticket);
  if (status == RONDE_OK) {
    engine.release(ticket);
  }
  Py_END_ALLOW_THREADS;
  if (status == RONDE_OK) {
    Py_RETURN_TRUE;
  }
  if (ticket == nullptr) {
    return refused(status, given, said);
  }
  Ticket* operation = new_operation(given, said.group(), memory);
  if (operation == nullptr) {  // no memory for a few words: the program's tensor stays for good
    Py_INCREF(memory);
    return nullptr;
  }
  const Owned owned(reinterpret_cast<PyObject*>(operation));
  operation->ticket = ticket;
  operation->number = said.taken();
  if (!go_on_waiting(operation, status, false)) {
    return nullptr;
  }
  operation->ticket = nullptr;
  Py_BEGIN_ALLOW_THREADS;
  engine.release(ticket);
  Py_END_ALLOW_THREADS;
  end_operation(operation);
  Py_RETURN_TRUE;
}

PyObject* begin(Said& said, const ronde_tensor& tensor, PyObject* memory, PyObject* given) {
  Ticket* operation = new_operation(given, said.group(), memory);
  if (operation == nullptr) {
    return nullptr;
  }
  Owned owned(reinterpret_cast<PyObject*>(operation));
  const ronde_request* request = said.on(tensor);
  ronde_status status = RONDE_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = engine.submit(nullptr, request, &operation->ticket);
  Py_END_ALLOW_THREADS;
  operation->number = said.taken();
  if (operation->ticket == nullptr) {
    end_operation(operation);
    return refused(status, given, said);
  }
  return owned.release();
}

PyObject* allreduce(PyObject* const* arguments, Py_ssize_t count, bool (Memory::*read)(PyObject*)) {
  if (count != 7) {
    PyErr_SetString(PyExc_TypeError, "expected memory, name, op, two factors, a process set and whether to wait");
    return nullptr;
  }
  // What nobody waits for any more is released by Python, now and then.
  if (!callbacks.is_complete || !has_engine() || PyList_Size(callbacks.abandoned) != 0) {
    Py_RETURN_NONE;
  }
  Memory memory;
  if (!(memory.*read)(arguments[0])) {
    Py_RETURN_NONE;
  }
  Said said(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
  if (!said.is_plain()) {
    Py_RETURN_NONE;
  }
  const auto make = arguments[6] == Py_True ? finish : begin;
  return make(said, memory.tensor(), arguments[0], arguments[1]);
}

}  // namespace

PyObject* allreduce_array(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return allreduce(arguments, count, &Memory::read_array);
}

PyObject* allreduce_tensor(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return allreduce(arguments, count, &Memory::read_tensor);
}

}  // namespace ronde::python
