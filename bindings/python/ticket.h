// One request under way: what ronde._operation.Operation is made of.
#pragma once

#include <ronde/ronde.h>

#include <cstdint>

#include "python.h"

namespace ronde::python {

struct Ticket {
  PyObject_HEAD ronde_ticket* ticket;
  PyObject* name;     // null until somebody asks for it, of a call that is described by the next three
  PyObject* given;    // the program's name of it; None: it has none
  int32_t group;      // the process set's id
  uint64_t number;    // that the engine has given to an unnamed call
  PyObject* keep;     // owns the memory
  bool is_told;       // the library was called
  bool is_abandoned;  // somebody else releases it
};

// The class, for the module; null with an exception.
PyObject* make_ticket_type(PyObject* module);

// An Operation of an all-reduce, entered in the table of those under way; null with an exception. Runs no Python code.
Ticket* new_operation(PyObject* given, int32_t group, PyObject* keep);

// Takes it from that table.
void end_operation(Ticket* operation);

// After an execute that has come back with a ticket and another status than RONDE_OK: waits until it has ended, so that
// signals are answered. False with an exception: it then needs no further care.
bool go_on_waiting(Ticket* operation, ronde_status status, bool again);

// Nobody will wait for it, since a signal handler has raised: it ends on every rank, unless all have made the call by
// now, and goes by itself. The exception stays.
void give_up(Ticket* operation);

// The exception for a call of this thread that has just returned this status. Always null.
PyObject* raise_last_error(ronde_status status, PyObject* name);

// (memory): a function of an Operation that releases it and returns the memory: what becomes of one in place.
PyObject* releasing(PyObject* module, PyObject* memory);

// The full name; borrowed, null with an exception.
PyObject* name_of(Ticket* operation);

}  // namespace ronde::python
