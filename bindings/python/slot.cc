#include "slot.h"

#include "engine.h"

namespace ronde::python {

PyObject* run_slot(PyObject*, PyObject* number) {
  const int64_t slot = PyLong_AsLongLong(number);
  if (slot == -1 && PyErr_Occurred() != nullptr) {
    return nullptr;
  }
  ronde_status submitted = RONDE_OK;
  ronde_status waited = RONDE_OK;
  Py_BEGIN_ALLOW_THREADS;
  submitted = engine.submit_slot(slot);
  if (submitted == RONDE_OK) {
    waited = engine.wait_slot(slot, kSliceS);
  }
  Py_END_ALLOW_THREADS;
  return PyLong_FromLong(submitted != RONDE_OK ? submitted : -waited);
}

}  // namespace ronde::python
