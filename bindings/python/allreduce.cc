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

// One call of an all-reduce. Each `read`: false, without an exception, for what is not plain.
struct Call {
  Call() {
    request.struct_size = sizeof(request);
    request.op = RONDE_ALLREDUCE;
    request.count = 1;
    request.taken = &taken;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool read_name(PyObject* given);
  bool read_op(PyObject* op);
  bool read_group(PyObject* process_set);
  bool read_call_site();
  bool read_tag();

  char name[kKindBytes + kMostNameBytes];
  uint64_t taken = 0;
  ronde_engine* engine = nullptr;
  ronde_request request = {};
};

bool Call::read_name(PyObject* given) {
  if (given == Py_None) {
    return true;
  }
  Py_ssize_t bytes = 0;
  const char* text = PyUnicode_CheckExact(given) ? PyUnicode_AsUTF8AndSize(given, &bytes) : nullptr;
  if (text == nullptr || static_cast<size_t>(bytes) > kMostNameBytes) {
    PyErr_Clear();
    return false;
  }
  std::memcpy(name, kKind, kKindBytes);
  std::memcpy(name + kKindBytes, text, static_cast<size_t>(bytes));
  request.name = name;
  request.name_bytes = kKindBytes + static_cast<size_t>(bytes);
  return true;
}

bool Call::read_op(PyObject* op) {
  if (op == Py_None) {
    request.reduce_op = RONDE_AVERAGE;
    return true;
  }
  const long code = PyLong_CheckExact(op) ? PyLong_AsLong(op) : -1;
  PyErr_Clear();
  request.reduce_op = static_cast<ronde_reduce_op>(code);
  return code >= RONDE_AVERAGE && code <= RONDE_BIT_XOR;
}

bool read_group_id(PyObject* id, int32_t& place) {
  const long group = id != nullptr && PyLong_CheckExact(id) ? PyLong_AsLong(id) : -1;
  PyErr_Clear();
  place = static_cast<int32_t>(group);
  return group >= 0 && group <= INT32_MAX;
}

bool Call::read_group(PyObject* process_set) {
  const Owned id(PyObject_GetAttr(process_set, callbacks.set_id));
  return read_group_id(id.get(), request.group);
}

bool Call::read_call_site() {
  request.call_site = known_call_site();
  return request.call_site != kNotKnown;
}

// How a call without a name has come about.
bool Call::read_tag() {
  if (request.name != nullptr || callbacks.own_tag == nullptr) {
    return true;
  }
  const Owned tag(PyObject_CallObject(callbacks.own_tag, nullptr));
  request.tag = tag && PyLong_CheckExact(tag.get()) != 0 ? static_cast<int32_t>(PyLong_AsLong(tag.get())) : -1;
  PyErr_Clear();
  return request.tag >= 0;
}

bool read_factor(PyObject* factor, double& place) {
  place = PyFloat_CheckExact(factor) ? PyFloat_AsDouble(factor) : 0;
  return place != 0;
}

// Whether the extension may make calls now: what nobody waits for any more is released by Python, now and then.
bool is_ready() { return callbacks.is_complete && has_engine() && PyList_Size(callbacks.abandoned) == 0; }

// What a call that has not become a ticket raises.
PyObject* refused(ronde_status status, PyObject* given, const Call& call) {
  const Owned group(PyLong_FromLong(call.request.group));
  const Owned number(PyLong_FromUnsignedLongLong(call.taken));
  const Owned name(group && number
                       ? PyObject_CallFunctionObjArgs(callbacks.name_of, given, group.get(), number.get(), nullptr)
                       : nullptr);
  return name ? raise_last_error(status, name.get()) : nullptr;
}

PyObject* finish(const Call& call, const Memory& memory, PyObject* owner, PyObject* given) {
  const Owned kept(memory.keeper(owner));  // another thread may give the tensor other memory meanwhile
  if (!kept) {
    return nullptr;
  }
  ronde_ticket* ticket = nullptr;
  ronde_status status = RONDE_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = engine.execute(call.engine, &call.request, kSliceS, &ticket);
  if (status == RONDE_OK) {
    engine.release(ticket);
  }
  Py_END_ALLOW_THREADS;
  if (status == RONDE_OK) {
    Py_RETURN_TRUE;
  }
  if (ticket == nullptr) {
    return refused(status, given, call);
  }
  Ticket* operation = new_operation(given, call.request.group, kept.get());
  if (operation == nullptr) {  // no memory for a few words: the program's tensor stays for good
    Py_INCREF(kept.get());
    return nullptr;
  }
  const Owned owned(reinterpret_cast<PyObject*>(operation));
  operation->ticket = ticket;
  operation->number = call.taken;
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

PyObject* begin(const Call& call, const Memory& memory, PyObject* owner, PyObject* given) {
  const Owned kept(memory.keeper(owner));
  Ticket* operation = kept ? new_operation(given, call.request.group, kept.get()) : nullptr;
  if (operation == nullptr) {
    return nullptr;
  }
  Owned owned(reinterpret_cast<PyObject*>(operation));
  ronde_status status = RONDE_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = engine.submit(call.engine, &call.request, &operation->ticket);
  Py_END_ALLOW_THREADS;
  operation->number = call.taken;
  if (operation->ticket == nullptr) {
    end_operation(operation);
    return refused(status, given, call);
  }
  return owned.release();
}

// What `make` makes of an operation. A signal handler may raise meanwhile: then nobody will wait, and the call is
// cancelled.
template <typename Make>
PyObject* made_of(const Owned& operation, const Make& make) {
  PyObject* made = operation ? make() : nullptr;
  if (operation && (made == nullptr || PyErr_CheckSignals() != 0)) {
    give_up(reinterpret_cast<Ticket*>(operation.get()));
    Py_CLEAR(made);
  }
  return made;
}

// begin(), and the Handle of it.
PyObject* begin_with_handle(const Call& call, const Memory& memory, PyObject* owner, PyObject* given) {
  const Owned operation(begin(call, memory, owner, given));
  return made_of(operation, [&]() -> PyObject* {
    const Owned take(releasing(nullptr, owner));
    return take ? PyObject_CallFunctionObjArgs(callbacks.handle, operation.get(), take.get(), nullptr) : nullptr;
  });
}

PyObject* allreduce(PyObject* const* arguments, Py_ssize_t count, bool (Memory::*read)(PyObject*)) {
  if (count != 7) {
    PyErr_SetString(PyExc_TypeError, "expected memory, name, op, two factors, a process set and whether to wait");
    return nullptr;
  }
  Memory memory;
  if (!is_ready() || callbacks.handle == nullptr || !(memory.*read)(arguments[0])) {
    Py_RETURN_NONE;
  }
  Call call;
  call.request.inputs = &memory.tensor();
  if (!call.read_name(arguments[1]) || !call.read_op(arguments[2]) ||
      !read_factor(arguments[3], call.request.prescale) || !read_factor(arguments[4], call.request.postscale) ||
      !call.read_group(arguments[5]) || !call.read_tag() || !call.read_call_site()) {
    Py_RETURN_NONE;
  }
  return (arguments[6] == Py_True ? finish : begin_with_handle)(call, memory, arguments[0], arguments[1]);
}

}  // namespace

PyObject* allreduce_array(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return allreduce(arguments, count, &Memory::read_array);
}

PyObject* allreduce_tensor(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return allreduce(arguments, count, &Memory::read_tensor);
}

PyObject* allreduce_in_group(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 8) {
    PyErr_SetString(PyExc_TypeError,
                    "expected a tensor, a reduction, a time, an engine, a group, what takes the operation or None to "
                    "wait, and its two arguments behind the operation");
    return nullptr;
  }
  Memory memory;
  if (!is_ready() || !memory.read_tensor(arguments[0])) {
    Py_RETURN_NONE;
  }
  Call call;
  call.request.inputs = &memory.tensor();
  call.request.prescale = call.request.postscale = 1;
  call.request.timeout_s = PyFloat_AsDouble(arguments[2]);
  call.engine = arguments[3] == Py_None ? nullptr : static_cast<ronde_engine*>(PyLong_AsVoidPtr(arguments[3]));
  if (PyErr_Occurred() != nullptr) {
    return nullptr;
  }
  if (!call.read_op(arguments[1]) || !read_group_id(arguments[4], call.request.group) || !call.read_tag() ||
      !call.read_call_site()) {
    Py_RETURN_NONE;
  }
  if (arguments[5] == Py_None) {
    return finish(call, memory, arguments[0], Py_None);
  }
  const Owned operation(begin(call, memory, arguments[0], Py_None));
  return made_of(operation, [&] {
    return PyObject_CallFunctionObjArgs(arguments[5], operation.get(), arguments[6], arguments[7], nullptr);
  });
}

}  // namespace ronde::python
