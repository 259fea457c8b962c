// Any request of Python's, from its description to the engine.
#pragma once

#include "python.h"

namespace ronde::python {

// Ticket.submit(op, inputs, outputs, reduce_op, root, prescale, postscale, group, splits, tag, timeout_s, engine,
// wait), as python/ronde/_ticket.py has it. Returns the status.
PyObject* submit_ticket(PyObject* self, PyObject* const* arguments, Py_ssize_t count);

}  // namespace ronde::python
