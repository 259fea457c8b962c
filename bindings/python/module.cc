// ronde._extension: the calls of Ronde that repeat, without ctypes. python/ronde/_extension.pyi says what it has.
#include "allreduce.h"
#include "call_site.h"
#include "callbacks.h"
#include "engine.h"
#include "gradients.h"
#include "memory.h"
#include "python.h"
#include "slot.h"
#include "ticket.h"

namespace ronde::python {

namespace {

PyObject* attach(PyObject*, PyObject* handle) {
  void* library = PyLong_AsVoidPtr(handle);
  if (PyErr_Occurred() != nullptr || !find_engine(library)) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* share(PyObject*, PyObject* arguments, PyObject* named) {
  if (PyTuple_Size(arguments) != 0 || named == nullptr) {
    PyErr_SetString(PyExc_TypeError, "share takes keywords only");
    return nullptr;
  }
  if (!take_callbacks(named)) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* note_fork(PyObject*, PyObject*) {
  callbacks.is_in_forked_child = true;
  Py_RETURN_NONE;
}

PyObject* know_place(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  const long instruction = count == 3 ? PyLong_AsLong(arguments[1]) : -1;
  const long number = count == 3 ? PyLong_AsLong(arguments[2]) : -1;
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "expected a code object, an instruction and a number");
  }
  if (PyErr_Occurred() != nullptr) {
    return nullptr;
  }
  remember_call_site(arguments[0], instruction, static_cast<int32_t>(number));
  Py_RETURN_NONE;
}

PyObject* know_handles(PyObject*, PyObject* type) {
  Py_INCREF(type);
  Py_XDECREF(callbacks.handle);
  callbacks.handle = type;
  Py_RETURN_NONE;
}

PyObject* know_tags(PyObject*, PyObject* own_tag) {
  Py_INCREF(own_tag);
  Py_XDECREF(callbacks.own_tag);
  callbacks.own_tag = own_tag;
  Py_RETURN_NONE;
}

PyObject* know_arrays(PyObject*, PyObject* type) {
  learn_array(type);
  Py_RETURN_NONE;
}

PyObject* know_tensors(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "expected two classes and a capsule");
    return nullptr;
  }
  return PyBool_FromLong(learn_tensors(arguments[0], arguments[1], arguments[2]) ? 1 : 0);
}

template <typename Function>
PyCFunction method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef methods[] = {
    {"attach", attach, METH_O, nullptr},
    {"share", method(share), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"note_fork", note_fork, METH_NOARGS, nullptr},
    {"know_place", method(know_place), METH_FASTCALL, nullptr},
    {"know_handles", know_handles, METH_O, nullptr},
    {"know_tags", know_tags, METH_O, nullptr},
    {"know_arrays", know_arrays, METH_O, nullptr},
    {"know_tensors", method(know_tensors), METH_FASTCALL, nullptr},
    {"allreduce_array", method(allreduce_array), METH_FASTCALL, nullptr},
    {"allreduce_tensor", method(allreduce_tensor), METH_FASTCALL, nullptr},
    {"allreduce_in_group", method(allreduce_in_group), METH_FASTCALL, nullptr},
    {"know_gradients", method(know_gradients), METH_FASTCALL, nullptr},
    {"gradient_hook", method(gradient_hook), METH_FASTCALL, nullptr},
    {"submit_places", method(submit_places), METH_FASTCALL, nullptr},
    {"free_places", free_places, METH_O, nullptr},
    {"without_gradient", without_gradient, METH_O, nullptr},
    {"releasing", releasing, METH_O, nullptr},
    {"run_slot", run_slot, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// What it knows is of one interpreter: others of the process take ctypes.
int fill(PyObject* module) {
  static PyInterpreterState* owner;
  PyInterpreterState* here = PyInterpreterState_Get();
  if (owner != nullptr && owner != here) {
    PyErr_SetString(PyExc_ImportError, "ronde._extension serves one interpreter of a process");
    return -1;
  }
  owner = here;
  const Owned type(make_ticket_type(module));
  if (!type || PyModule_AddObjectRef(module, "Ticket", type.get()) != 0) {
    return -1;
  }
  return add_gradient_types(module) ? 0 : -1;
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(fill)},
    {0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_extension", nullptr, 0, methods, slots, nullptr, nullptr, nullptr};

}  // namespace

}  // namespace ronde::python

PyMODINIT_FUNC PyInit__extension() {
  // Python 3.10 loads the file too, but has not all that 3.11 promises.
  if (Py_Version < 0x030B0000) {
    PyErr_SetString(PyExc_ImportError, "ronde._extension needs Python 3.11");
    return nullptr;
  }
  return PyModuleDef_Init(&ronde::python::definition);
}
