#include "call_site.h"

#include <algorithm>
#include <cstddef>

#include "callbacks.h"

namespace ronde::python {

namespace {

struct Place {
  PyObject* code;  // owned, so that no other code gets its address
  long instruction;
  int32_t number;
  uint64_t used;  // when it was last asked for, or noted; 0: empty
};

// A place that is asked for again and again is found among four; a fifth of the same set pushes out the one that has
// not been asked for longest.
constexpr size_t kWays = 4;
constexpr size_t kSets = 512;
Place places[kSets][kWays];
uint64_t now_used;

constexpr long kAnyInstruction = -1;

Place (&set_of(PyObject* code, long instruction))[kWays] {
  const auto mixed =
      (reinterpret_cast<uintptr_t>(code) >> 4) * 31 + static_cast<uintptr_t>(instruction + 1) * 2654435761U;
  return places[(mixed ^ (mixed >> 16)) % kSets];
}

const Place* find(PyObject* code, long instruction) {
  for (Place& place : set_of(code, instruction)) {
    if (place.code == code && place.instruction == instruction) {
      place.used = ++now_used;
      return &place;
    }
  }
  return nullptr;
}

Place& way_for(PyObject* code, long instruction) {
  Place(&set)[kWays] = set_of(code, instruction);
  return *std::min_element(set, set + kWays, [](const Place& a, const Place& b) { return a.used < b.used; });
}

}  // namespace

int32_t known_call_site() {
  Owned frame(PyObject_CallFunctionObjArgs(callbacks.frame, callbacks.one, nullptr));
  if (!frame) {  // a thread begins with a function of ours
    PyErr_Clear();
    return 0;
  }
  while (frame.get() != Py_None) {
    const Owned code(reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame.get()))));
    if (find(code.get(), kAnyInstruction) == nullptr) {
      const Owned at(PyObject_GetAttr(frame.get(), callbacks.instruction));
      const long instruction = at ? PyLong_AsLong(at.get()) : -1;
      const Place* place = find(code.get(), instruction);
      PyErr_Clear();
      return place == nullptr || instruction < 0 ? kNotKnown : place->number;
    }
    frame = Owned(PyObject_GetAttr(frame.get(), callbacks.back));
    if (!frame) {
      PyErr_Clear();
      return kNotKnown;
    }
  }
  return 0;
}

void remember_call_site(PyObject* code, long instruction, int32_t number) {
  if (find(code, instruction) != nullptr) {
    return;
  }
  Place& place = way_for(code, instruction);
  PyObject* before = place.code;
  Py_INCREF(code);
  place = {code, instruction, number, ++now_used};
  Py_XDECREF(before);
}

}  // namespace ronde::python
