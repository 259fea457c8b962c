#include "engine.h"

#include <dlfcn.h>

namespace ronde::python {

Engine engine = {};

namespace {

template <typename Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) {
    PyErr_Format(PyExc_ImportError, "Ronde's library has no function %s: install library and package of one release",
                 name);
  }
  return function != nullptr;
}

}  // namespace

bool find_engine(void* handle) {
  Engine found = {};
  if (!find(handle, "ronde_submit", found.submit) || !find(handle, "ronde_execute", found.execute) ||
      !find(handle, "ronde_test", found.test) || !find(handle, "ronde_wait", found.wait) ||
      !find(handle, "ronde_cancel", found.cancel) || !find(handle, "ronde_release", found.release) ||
      !find(handle, "ronde_submit_slot", found.submit_slot) ||
      !find(handle, "ronde_submit_slots", found.submit_slots) || !find(handle, "ronde_wait_slot", found.wait_slot)) {
    return false;
  }
  engine = found;
  return true;
}

}  // namespace ronde::python
