// What the extension calls and shares of Ronde's Python modules, which say so when they are loaded (`share` in
// module.cc). All under the interpreter's lock.
#pragma once

#include "python.h"

namespace ronde::python {

struct Callbacks {
  PyObject* operation;      // the class Operation, made of this extension's Ticket
  PyObject* under_way;      // a set: operations whose memory the engine may still touch
  PyObject* abandoned;      // a list: those that nobody will wait for
  PyObject* last_error;     // (status, name) -> the exception for what the library has just reported
  PyObject* name_of;        // (name or None, group, number) -> the full name of an all-reduce
  PyObject* call_site;      // () -> the number of the place that asks, found by Python
  PyObject* require_int32;  // (value, what it is) raises for one that no 32 bits hold
  PyObject* handle;         // the class Handle; null until it is known
  PyObject* own_tag;        // () -> how a call without a name came about, None if Python is to see to it; may be null
  PyObject* library;        // () loads the library, if it is not
  PyObject* frame;          // sys._getframe
  PyObject* is_neg;         // "is_neg"
  PyObject* storage;        // "untyped_storage"
  PyObject* set_id;         // "process_set_id"
  PyObject* back;           // "f_back"
  PyObject* instruction;    // "f_lasti"
  PyObject* wait_on;        // "_wait_on"
  PyObject* cancel;         // "cancel"
  PyObject* number;         // "number"
  PyObject* one;            // 1
  bool is_complete;         // until then nothing here is used
  bool is_in_forked_child;  // of a process that was a rank
};

extern Callbacks callbacks;

// Takes what Python has under these names: keywords of `share`. False with an exception.
bool take_callbacks(PyObject* named);

}  // namespace ronde::python
