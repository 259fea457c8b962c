// What ronde.torch's optimizer does for each gradient of each step: python/ronde/torch/_parts.py says what is here.
#pragma once

#include "python.h"

namespace ronde::python {

// The classes on which Python's Member, Unit, Place, Ready and Reducer are built, for the module. False with an
// exception.
bool add_gradient_types(PyObject* module);

// (current_pass, holders_of, users_of, parameter): PyTorch's functions, and a parameter whose gradient nobody else
// holds. Requires: know_tensors() has said yes.
PyObject* know_gradients(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

// (member, owner, call): weak references, and the function of both that Python has for all that is not plain. Returns
// what autograd is to call.
PyObject* gradient_hook(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

// (units, placed): submits those whose gradients lie in their places, and notes them in the dictionary `placed`.
// Returns the units that do not lie so, the status, and if that is not RONDE_OK the units from the first that has
// failed on.
PyObject* submit_places(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

// (placed): all of these are reduced. Returns the units whose result is not `p.grad` yet.
PyObject* free_places(PyObject* module, PyObject* placed);

// (members): those without a gradient.
PyObject* without_gradient(PyObject* module, PyObject* members);

}  // namespace ronde::python
