#include "ticket.h"

#include <structmember.h>

#include "callbacks.h"
#include "engine.h"
#include "submit.h"

namespace ronde::python {

namespace {

Ticket* of(PyObject* self) { return reinterpret_cast<Ticket*>(self); }

PyObject* object(Ticket* self) { return reinterpret_cast<PyObject*>(self); }

// ---- Its life

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  PyObject* name = nullptr;
  PyObject* keep = nullptr;
  static const char* keywords[] = {"name", "keep", nullptr};
  if (PyArg_ParseTupleAndKeywords(arguments, named, "OO", const_cast<char**>(keywords), &name, &keep) == 0) {
    return nullptr;
  }
  PyObject* made = PyType_GenericAlloc(type, 0);
  if (made != nullptr) {
    Py_INCREF(name);
    Py_INCREF(keep);
    of(made)->name = name;
    of(made)->keep = keep;
  }
  return made;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(of(self)->name);
  Py_VISIT(of(self)->given);
  Py_VISIT(of(self)->keep);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(of(self)->name);
  Py_CLEAR(of(self)->given);
  Py_CLEAR(of(self)->keep);
  return 0;
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

// ---- What Python reads

PyObject* get_name(PyObject* self, void*) {
  PyObject* name = name_of(of(self));
  Py_XINCREF(name);
  return name;
}

PyObject* get_ticket(PyObject* self, void*) {
  if (of(self)->ticket == nullptr) {
    Py_RETURN_NONE;
  }
  return PyLong_FromVoidPtr(of(self)->ticket);
}

PyObject* get_taken(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(of(self)->number); }

PyObject* get_is_told(PyObject* self, void*) { return PyBool_FromLong(of(self)->is_told ? 1 : 0); }

PyObject* get_is_abandoned(PyObject* self, void*) { return PyBool_FromLong(of(self)->is_abandoned ? 1 : 0); }

// ---- What Python calls

PyObject* done(PyObject* self, PyObject*) {
  ronde_ticket* ticket = of(self)->ticket;
  if (ticket == nullptr) {  // released
    Py_RETURN_TRUE;
  }
  int32_t is_done = 0;
  const ronde_status status = engine.test(ticket, &is_done);  // never blocks, and no other thread frees it meanwhile
  if (status != RONDE_OK) {
    PyObject* name = name_of(of(self));
    return name == nullptr ? nullptr : raise_last_error(status, name);
  }
  if (is_done == 0) {  // who asks again and again lets others run
    Py_BEGIN_ALLOW_THREADS;
    Py_END_ALLOW_THREADS;
  }
  return PyBool_FromLong(is_done);
}

PyObject* wait(PyObject* self, PyObject* arguments, PyObject* named) {
  int again = 0;
  static const char* keywords[] = {"again", nullptr};
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|p", const_cast<char**>(keywords), &again) == 0) {
    return nullptr;
  }
  ronde_status status = RONDE_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = engine.wait(of(self)->ticket, kSliceS);
  Py_END_ALLOW_THREADS;
  if (status == RONDE_OK) {
    end_operation(of(self));
  } else if (!go_on_waiting(of(self), status, again != 0)) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* ask_to_cancel(PyObject* self, PyObject*) {  // never blocks, and no other thread frees it meanwhile
  return PyBool_FromLong(engine.cancel(of(self)->ticket) == RONDE_OK ? 1 : 0);
}

PyObject* release(PyObject* self, PyObject*) {
  Ticket* operation = of(self);
  ronde_ticket* ticket = operation->ticket;
  if (ticket == nullptr || callbacks.is_in_forked_child) {
    Py_RETURN_NONE;
  }
  operation->ticket = nullptr;
  Py_BEGIN_ALLOW_THREADS;
  engine.release(ticket);
  Py_END_ALLOW_THREADS;
  end_operation(operation);
  Py_CLEAR(operation->keep);
  Py_RETURN_NONE;
}

PyObject* abandon(PyObject* self, PyObject*) {
  if (of(self)->ticket != nullptr && !callbacks.is_in_forked_child) {
    of(self)->is_abandoned = true;
    if (PySet_Add(callbacks.under_way, self) != 0 || PyList_Append(callbacks.abandoned, self) != 0) {
      return nullptr;
    }
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"submit", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(submit_ticket)), METH_FASTCALL, "Hands it in."},
    {"done", done, METH_NOARGS, "Whether it has ended, well or not. Never blocks."},
    {"wait", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(wait)), METH_VARARGS | METH_KEYWORDS,
     "Until it has ended."},
    {"ask_to_cancel", ask_to_cancel, METH_NOARGS, "Begins to end it; False if there is nothing to end."},
    {"release", release, METH_NOARGS, "Frees the ticket of an operation that has ended."},
    {"abandon", abandon, METH_NOARGS, "Nobody will wait for it."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"name", get_name, nullptr, "The full name.", nullptr},
    {"taken", get_taken, nullptr, "The number that an unnamed call was given; 0: none.", nullptr},
    {"is_told", get_is_told, nullptr, "Whether the library was called.", nullptr},
    {"is_abandoned", get_is_abandoned, nullptr, "Whether it is released by itself when it has ended.", nullptr},
    {"ticket", get_ticket, nullptr, "The address of the C ticket; None once released.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(create)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, nullptr},
};

PyType_Spec spec = {"ronde._extension.Ticket", sizeof(Ticket), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, slots};

PyObject* release_for(PyObject* memory, PyObject* operation) {
  if (Py_TYPE(operation) != reinterpret_cast<PyTypeObject*>(callbacks.operation)) {
    PyErr_SetString(PyExc_TypeError, "expected an Operation");
    return nullptr;
  }
  const Owned none(release(operation, nullptr));
  Py_INCREF(memory);
  return memory;
}

PyMethodDef release_method = {"release_for", release_for, METH_O, nullptr};

}  // namespace

PyObject* releasing(PyObject*, PyObject* memory) { return PyCFunction_NewEx(&release_method, memory, nullptr); }

PyObject* make_ticket_type(PyObject* module) { return PyType_FromModuleAndSpec(module, &spec, nullptr); }

Ticket* new_operation(PyObject* given, int32_t group, PyObject* keep) {
  PyObject* made = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(callbacks.operation), 0);
  if (made == nullptr) {
    return nullptr;
  }
  Ticket* operation = of(made);
  Py_INCREF(given);
  Py_INCREF(keep);
  operation->given = given;
  operation->keep = keep;
  operation->group = group;
  if (PySet_Add(callbacks.under_way, made) != 0) {
    Py_DECREF(made);
    return nullptr;
  }
  return operation;
}

void end_operation(Ticket* operation) {
  if (PySet_Discard(callbacks.under_way, object(operation)) < 0) {
    PyErr_Clear();
  }
}

void give_up(Ticket* operation) {
  const ExceptionAside raised;
  Owned(PyObject_CallMethodObjArgs(object(operation), callbacks.cancel, nullptr));
  PyErr_Clear();
  Owned(abandon(object(operation), nullptr));
  PyErr_Clear();
}

bool go_on_waiting(Ticket* operation, ronde_status status, bool again) {
  bool is_interrupted = false;
  if (status == RONDE_INTERRUPTED || status == RONDE_TIMED_OUT) {
    is_interrupted = PyErr_CheckSignals() != 0;
  }
  if (!is_interrupted) {
    const Owned code(PyLong_FromLong(status));
    const Owned waited(code ? PyObject_CallMethodObjArgs(object(operation), callbacks.wait_on, code.get(),
                                                         again ? Py_True : Py_False, nullptr)
                            : nullptr);
    if (waited) {
      return true;
    }
  }
  if (!again && operation->ticket != nullptr && !operation->is_abandoned) {
    give_up(operation);
  }
  return false;
}

PyObject* raise_last_error(ronde_status status, PyObject* name) {
  const Owned code(PyLong_FromLong(status));
  const Owned error(code ? PyObject_CallFunctionObjArgs(callbacks.last_error, code.get(), name, nullptr) : nullptr);
  if (error) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  }
  return nullptr;
}

PyObject* name_of(Ticket* operation) {
  if (operation->name == nullptr) {
    const Owned group(PyLong_FromLong(operation->group));
    const Owned number(PyLong_FromUnsignedLongLong(operation->number));
    if (!group || !number) {
      return nullptr;
    }
    PyObject* made =
        PyObject_CallFunctionObjArgs(callbacks.name_of, operation->given, group.get(), number.get(), nullptr);
    if (made == nullptr) {
      return nullptr;
    }
    Py_XDECREF(operation->name);
    operation->name = made;
  }
  return operation->name;
}

}  // namespace ronde::python
