// Requests that come back each step.
#pragma once

#include "python.h"

namespace ronde::python {

// (number): submits the slot's request and waits for a slice of time. 0: it is done. Above 0: the status with which the
// submit has failed; below: minus the status of a wait that is to go on, or has failed.
PyObject* run_slot(PyObject* module, PyObject* number);

}  // namespace ronde::python
