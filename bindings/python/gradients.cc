#include "gradients.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "callbacks.h"
#include "dlpack.h"
#include "engine.h"
#include "memory.h"
#include "parts.h"

namespace ronde::python {

namespace {

// Larger gradients are copied by PyTorch, by several threads and while other Python threads run.
constexpr size_t kMostCopiedHere = 32 * 1024;

PyObject* current_pass;
PyObject* holders_of;
PyObject* users_of;
Py_ssize_t references_of_one;  // that one variable holds, and its parameter
PyObject* grad_name;
PyObject* requires_grad_name;
PyObject* version_name;

Owned gradient_of(PyObject* parameter) {
  return parameter == nullptr ? Owned() : Owned(PyObject_GetAttr(parameter, grad_name));
}

// The number that a function says of an object; -1 if it says none. Leaves no exception.
long asked(PyObject* function, PyObject* of) {
  const Owned answer(PyObject_CallFunctionObjArgs(function, of, nullptr));
  const long number = answer ? PyLong_AsLong(answer.get()) : -1;
  PyErr_Clear();
  return number;
}

bool is_dense_like(const dlpack::Tensor& one, const dlpack::Tensor& other) {
  const auto bytes = static_cast<size_t>(one.ndim) * sizeof(int64_t);
  return one.ndim == other.ndim && one.strides != nullptr && other.strides != nullptr &&
         (bytes == 0 ||
          (std::memcmp(one.shape, other.shape, bytes) == 0 && std::memcmp(one.strides, other.strides, bytes) == 0));
}

// Of a dense one: of what it is now, whatever it was when its unit was made (module.double()).
size_t bytes_of(const dlpack::Tensor& tensor) {
  size_t bytes = tensor.bits / 8U;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    bytes *= static_cast<size_t>(tensor.shape[i]);
  }
  return bytes;
}

bool is_here(const dlpack::Tensor& view, const Place* place) {
  return reinterpret_cast<intptr_t>(view.data) + static_cast<intptr_t>(view.byte_offset) == place->address;
}

// Whether the gradient can go to its place here and now, as move_in() in _moving_in.py would bring it there: autograd
// has just made it, nobody else holds it, and nobody holds what was in the place before.
bool can_move(PyObject* gradient, Place* place, const dlpack::Tensor& from, const dlpack::Tensor& to) {
  if (from.code != to.code || from.bits != to.bits || from.code == dlpack::kComplex ||
      from.device_type != dlpack::kCpu || !is_dense_like(from, to) || Py_REFCNT(gradient) > references_of_one ||
      place->own_users <= 0 || Py_REFCNT(place->view) + 1 != place->own_references ||
      Py_REFCNT(place->storage) + 1 != place->own_storage_references) {
    return false;
  }
  const Owned requires_grad(PyObject_GetAttr(gradient, requires_grad_name));
  const Owned version(PyObject_GetAttr(gradient, version_name));
  const long writes = version ? PyLong_AsLong(version.get()) : -1;  // a tensor of inference mode counts none
  PyErr_Clear();
  return requires_grad.get() == Py_False && writes == 0 && !may_be_negative(gradient) &&
         asked(holders_of, place->view) == place->own_holders &&
         asked(users_of, place->storage_number) == place->own_users;
}

enum class Way { kPythons, kThere, kMoves };

// What is to be done with the parameter's gradient.
Way way_of(const Member* member, Place* place, PyObject* gradient, dlpack::Tensor& from, dlpack::Tensor& to) {
  dlpack::Tensor parameter = {};
  if (place->busy != 0 || gradient == Py_None || !look_at_tensor(member->parameter, parameter) ||
      !look_at_tensor(place->view, to) || !is_here(to, place) || !is_dense_like(parameter, to)) {
    return Way::kPythons;
  }
  if (gradient == place->view) {
    return Way::kThere;
  }
  if (bytes_of(to) > kMostCopiedHere || !look_at_tensor(gradient, from) || !can_move(gradient, place, from, to)) {
    return Way::kPythons;
  }
  return Way::kMoves;
}

// The backward pass that calls, a Ready, if it has been met and nothing is due to be started; none without an
// exception.
Owned ready_of(const Arrivals* owner) {
  const Owned set_id(PyObject_GetAttr(owner->process_set, callbacks.set_id));
  const Owned now(PyObject_CallFunctionObjArgs(current_pass, nullptr));
  Owned found;
  if (set_id && now && PyObject_RichCompareBool(set_id.get(), owner->group, Py_EQ) == 1) {
    found = shared(PyDict_GetItem(owner->ready, now.get()));
  }
  PyErr_Clear();
  const auto* ready = as<Ready>(found.get(), types.ready);
  return ready != nullptr && ready->n_bytes < kTogether && PyList_Check(ready->units) != 0 ? std::move(found) : Owned();
}

// Reducer._count() where all is plain. False, without an exception and with nothing done, where it is not.
bool count(Arrivals* owner, Member* member, bool& has_failed) {
  const Owned unit_kept = shared(member->unit);
  const auto* unit = as<Unit>(unit_kept.get(), types.unit);
  if (owner->in_turn != 0 || owner->is_left != 0 || owner->origins != Py_None || unit == nullptr ||
      unit->is_single == 0 || unit->is_private != 0 || (unit->layout != kDense && unit->layout != kUnknownLayout)) {
    return false;
  }
  // With several passes others may add to the gradient meanwhile, in threads that need no interpreter.
  const Owned place_kept = shared(unit->place);
  auto* place = as<Place>(place_kept.get(), types.place);
  if (owner->passes != 1 || place == nullptr) {
    return false;
  }
  const Owned ready_kept = ready_of(owner);
  auto* ready = as<Ready>(ready_kept.get(), types.ready);
  const Owned gradient = ready == nullptr ? Owned() : gradient_of(member->parameter);
  dlpack::Tensor from = {};
  dlpack::Tensor to = {};
  PyErr_Clear();
  const Way way = gradient ? way_of(member, place, gradient.get(), from, to) : Way::kPythons;
  // Only now: the questions above may have let another thread come in between.
  if (way == Way::kPythons || (member->round == owner->round && member->left == 0)) {
    return false;
  }
  member->round = owner->round;
  member->left = 0;
  has_failed = PyList_Append(ready->units, unit_kept.get()) != 0;
  ready->n_bytes += unit->n_bytes;
  if (way == Way::kMoves && !has_failed) {
    std::memcpy(static_cast<char*>(to.data) + to.byte_offset, static_cast<char*>(from.data) + from.byte_offset,
                bytes_of(to));
    has_failed = PyObject_SetAttr(member->parameter, grad_name, place->view) != 0;
  }
  return true;
}

PyObject* on_gradient(PyObject* self, PyObject*) {
  // Somebody may drop them meanwhile.
  PyObject* seen = PyWeakref_GetObject(PyTuple_GetItem(self, 0));
  PyObject* owner_seen = PyWeakref_GetObject(PyTuple_GetItem(self, 1));
  if (seen == nullptr || owner_seen == nullptr) {
    return nullptr;
  }
  if (seen == Py_None || owner_seen == Py_None) {
    Py_RETURN_NONE;
  }
  Py_INCREF(seen);
  Py_INCREF(owner_seen);
  const Owned member(seen);
  const Owned owner(owner_seen);
  bool has_failed = false;
  auto* arrivals = as<Arrivals>(owner.get(), types.arrivals);
  auto* reached = as<Member>(member.get(), types.member);
  if (arrivals != nullptr && reached != nullptr && count(arrivals, reached, has_failed)) {
    if (has_failed) {
      return nullptr;
    }
    Py_RETURN_NONE;
  }
  return PyObject_CallFunctionObjArgs(PyTuple_GetItem(self, 2), owner.get(), member.get(), nullptr);
}

PyMethodDef hook_method = {"on_gradient", on_gradient, METH_O, nullptr};

// Whether the unit's gradient lies in its place, a Place, which is then noted.
bool lies_in_place(PyObject* object, Owned& noted) {
  const auto* unit = as<Unit>(object, types.unit);
  noted = unit == nullptr ? Owned() : shared(unit->place);
  const auto* place = as<Place>(noted.get(), types.place);
  if (place == nullptr) {
    return false;
  }
  const Owned gradient = gradient_of(unit->parameter);
  PyErr_Clear();
  dlpack::Tensor view = {};
  return gradient.get() == place->view && look_at_tensor(place->view, view) && is_here(view, place);
}

}  // namespace

PyObject* know_gradients(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "expected three functions and a parameter");
    return nullptr;
  }
  grad_name = PyUnicode_InternFromString("grad");
  requires_grad_name = PyUnicode_InternFromString("requires_grad");
  version_name = PyUnicode_InternFromString("_version");
  const Owned gradient = grad_name == nullptr ? Owned() : gradient_of(arguments[3]);
  if (!gradient || requires_grad_name == nullptr || version_name == nullptr) {
    return nullptr;
  }
  references_of_one = Py_REFCNT(gradient.get());
  for (int i = 0; i < 3; ++i) {
    Py_INCREF(arguments[i]);
  }
  current_pass = arguments[0];
  holders_of = arguments[1];
  users_of = arguments[2];
  Py_RETURN_NONE;
}

PyObject* gradient_hook(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3 || PyWeakref_Check(arguments[0]) == 0 || PyWeakref_Check(arguments[1]) == 0) {
    PyErr_SetString(PyExc_TypeError, "expected two weak references and a function");
    return nullptr;
  }
  const Owned self(PyTuple_Pack(3, arguments[0], arguments[1], arguments[2]));
  return self ? PyCFunction_NewEx(&hook_method, self.get(), nullptr) : nullptr;
}

PyObject* submit_places(PyObject*, PyObject* const* arguments, Py_ssize_t argument_count) {
  if (argument_count != 2 || PyList_Check(arguments[0]) == 0 || PyDict_Check(arguments[1]) == 0) {
    PyErr_SetString(PyExc_TypeError, "expected a list of units and a dictionary");
    return nullptr;
  }
  const Py_ssize_t size = PyList_Size(arguments[0]);
  const std::unique_ptr<int64_t[]> numbers(new (std::nothrow) int64_t[static_cast<size_t>(size) + 1]);
  const Owned here(PyList_New(0));
  const Owned places(PyList_New(0));  // kept, whatever place a unit gets meanwhile
  const Owned others(PyList_New(0));
  if (!numbers || !here || !places || !others) {
    return PyErr_NoMemory();
  }
  size_t count = 0;
  for (Py_ssize_t i = 0; i < PyList_Size(arguments[0]) && i < size; ++i) {
    const Owned unit = shared(PyList_GetItem(arguments[0], i));
    Owned noted;
    const bool is_here = lies_in_place(unit.get(), noted);
    if (PyList_Append(is_here ? here.get() : others.get(), unit.get()) != 0) {
      return nullptr;
    }
    if (is_here) {
      if (PyList_Append(places.get(), noted.get()) != 0) {
        return nullptr;
      }
      auto* place = reinterpret_cast<Place*>(noted.get());
      place->busy = 1;
      numbers[count++] = place->number;
    }
  }
  size_t submitted = 0;
  ronde_status status = RONDE_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = engine.submit_slots(numbers.get(), count, &submitted);
  Py_END_ALLOW_THREADS;
  for (size_t i = 0; i < submitted; ++i) {
    const auto index = static_cast<Py_ssize_t>(i);
    if (PyDict_SetItem(arguments[1], PyList_GetItem(here.get(), index), PyList_GetItem(places.get(), index)) != 0) {
      return nullptr;
    }
  }
  const Owned failed(PyList_GetSlice(here.get(), static_cast<Py_ssize_t>(submitted), PY_SSIZE_T_MAX));
  return failed ? Py_BuildValue("OiO", others.get(), static_cast<int>(status), failed.get()) : nullptr;
}

PyObject* free_places(PyObject*, PyObject* placed) {
  Owned others(PyList_New(0));
  if (!others || PyDict_Check(placed) == 0) {
    return others ? PyErr_Format(PyExc_TypeError, "expected a dictionary") : nullptr;
  }
  Py_ssize_t at = 0;
  PyObject* unit = nullptr;
  PyObject* value = nullptr;
  while (PyDict_Next(placed, &at, &unit, &value) != 0) {
    auto* place = as<Place>(value, types.place);
    Owned own;
    const bool is_result = place != nullptr && lies_in_place(unit, own) && own.get() == value;
    if (place != nullptr) {
      place->busy = 0;
    }
    if (!is_result && PyList_Append(others.get(), unit) != 0) {
      return nullptr;
    }
  }
  return others.release();
}

PyObject* without_gradient(PyObject*, PyObject* members) {
  Owned lacking(PyList_New(0));
  if (!lacking || PyList_Check(members) == 0) {
    return lacking ? PyErr_Format(PyExc_TypeError, "expected a list") : nullptr;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(members); ++i) {
    PyObject* each = PyList_GetItem(members, i);
    const auto* member = as<Member>(each, types.member);
    const Owned gradient = member == nullptr ? Owned() : gradient_of(member->parameter);
    if (!gradient) {
      return PyErr_Occurred() != nullptr ? nullptr : PyErr_Format(PyExc_TypeError, "expected members");
    }
    if (gradient.get() == Py_None && PyList_Append(lacking.get(), each) != 0) {
      return nullptr;
    }
  }
  return lacking.release();
}

}  // namespace ronde::python
