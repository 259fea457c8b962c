// The functions of libronde.so that the extension calls. Python has loaded the library, and says where it is.
#pragma once

#include <ronde/ronde.h>

#include "python.h"

namespace ronde::python {

struct Engine {
  decltype(&ronde_submit) submit;
  decltype(&ronde_execute) execute;
  decltype(&ronde_test) test;
  decltype(&ronde_wait) wait;
  decltype(&ronde_cancel) cancel;
  decltype(&ronde_release) release;
  decltype(&ronde_submit_slot) submit_slot;
  decltype(&ronde_submit_slots) submit_slots;
  decltype(&ronde_wait_slot) wait_slot;
};

// All null until find_engine() has succeeded.
extern Engine engine;

inline bool has_engine() { return engine.submit != nullptr; }

// `handle`: of dlopen(). False with an ImportError if it lacks one of them.
bool find_engine(void* handle);

// A wait comes back this often so that Python can answer a signal that another thread has taken, in seconds.
inline constexpr double kSliceS = 0.05;

}  // namespace ronde::python
