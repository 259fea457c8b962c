#include "callbacks.h"

namespace ronde::python {

Callbacks callbacks = {};

namespace {

bool take(PyObject* named, const char* name, PyObject*& place) {
  PyObject* given = PyDict_GetItemString(named, name);  // borrowed
  if (given == nullptr) {
    PyErr_Format(PyExc_TypeError, "share: %s is missing", name);
    return false;
  }
  Py_INCREF(given);
  Py_XDECREF(place);
  place = given;
  return true;
}

bool intern(const char* text, PyObject*& place) {
  if (place == nullptr) {
    place = PyUnicode_InternFromString(text);
  }
  return place != nullptr;
}

}  // namespace

bool take_callbacks(PyObject* named) {
  Callbacks& all = callbacks;
  if (!take(named, "operation", all.operation) || !take(named, "under_way", all.under_way) ||
      !take(named, "abandoned", all.abandoned) || !take(named, "last_error", all.last_error) ||
      !take(named, "name_of", all.name_of) || !take(named, "call_site", all.call_site) ||
      !take(named, "require_int32", all.require_int32) || !take(named, "library", all.library) ||
      !take(named, "frame", all.frame)) {
    return false;
  }
  if (!PySet_Check(all.under_way) || !PyList_Check(all.abandoned) || !PyType_Check(all.operation)) {
    PyErr_SetString(PyExc_TypeError, "share: under_way is a set, abandoned a list, operation a class");
    return false;
  }
  all.one = all.one != nullptr ? all.one : PyLong_FromLong(1);
  if (all.one == nullptr || !intern("is_neg", all.is_neg) || !intern("untyped_storage", all.storage) ||
      !intern("process_set_id", all.set_id) || !intern("f_back", all.back) || !intern("f_lasti", all.instruction) ||
      !intern("_wait_on", all.wait_on) || !intern("cancel", all.cancel) || !intern("number", all.number)) {
    return false;
  }
  all.is_complete = true;
  return true;
}

}  // namespace ronde::python
