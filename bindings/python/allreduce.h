// The shortest way of an all-reduce in place, from a call's arguments to the engine.
#pragma once

#include "python.h"

namespace ronde::python {

// (memory, name, op, prescale_factor, postscale_factor, process_set, wait): what `allreduce_` of NumPy and of PyTorch
// is given. True when it is done; without `wait` the Operation under way; None, and nothing has happened, where the
// call is not as plain as these functions take: Python makes it then.
PyObject* allreduce_array(PyObject* module, PyObject* const* arguments, Py_ssize_t count);
PyObject* allreduce_tensor(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

// (tensor, reduction, time limit in seconds, engine or None, group, take, two arguments of it): the same of PyTorch's
// process groups. With None for `take` it waits, and returns True; else it returns what that returns, of the operation
// under way and the arguments.
PyObject* allreduce_in_group(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

}  // namespace ronde::python
