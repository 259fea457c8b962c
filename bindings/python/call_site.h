// Where in the user's program a call is made, as python/ronde/_call_site.py finds it, remembered by instruction.
#pragma once

#include <cstdint>

#include "python.h"

namespace ronde::python {

inline constexpr int32_t kNotKnown = -1;

// The number of the place that has called the Python function that has called the extension; kNotKnown where Python has
// not looked yet. Runs no Python code and leaves no exception.
int32_t known_call_site();

// What Python has found: the number of a place, or that what this code calls is not the user's (instruction -1).
void remember_call_site(PyObject* code, long instruction, int32_t number);

}  // namespace ronde::python
