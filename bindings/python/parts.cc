#include "parts.h"

#include <structmember.h>

#include <cstddef>

#include "gradients.h"

namespace ronde::python {

Types types = {};

namespace {

// Where in each class the references are.
template <typename Part>
inline constexpr size_t kReferences[] = {0};
template <>
inline constexpr size_t kReferences<Unit>[] = {offsetof(Unit, place), offsetof(Unit, parameter)};
template <>
inline constexpr size_t kReferences<Place>[] = {offsetof(Place, view), offsetof(Place, storage),
                                                offsetof(Place, storage_number)};
template <>
inline constexpr size_t kReferences<Member>[] = {offsetof(Member, parameter), offsetof(Member, unit)};
template <>
inline constexpr size_t kReferences<Ready>[] = {offsetof(Ready, units)};
template <>
inline constexpr size_t kReferences<Arrivals>[] = {offsetof(Arrivals, process_set), offsetof(Arrivals, group),
                                                   offsetof(Arrivals, ready), offsetof(Arrivals, origins)};

PyObject*& at(PyObject* self, size_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + offset);
}

template <typename Part>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (const size_t offset : kReferences<Part>) {
    Py_VISIT(at(self, offset));
  }
  return 0;
}

template <typename Part>
int clear(PyObject* self) {
  for (const size_t offset : kReferences<Part>) {
    Py_CLEAR(at(self, offset));
  }
  return 0;
}

template <typename Part>
void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear<Part>(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

#define RONDE_FIELD(Part, field, type) \
  { #field, type, offsetof(Part, field), 0, nullptr }
#define RONDE_OWN_FIELD(Part, field, type) \
  { "_" #field, type, offsetof(Part, field), 0, nullptr }

PyMemberDef unit_fields[] = {RONDE_FIELD(Unit, place, T_OBJECT),   RONDE_FIELD(Unit, parameter, T_OBJECT),
                             RONDE_FIELD(Unit, layout, T_LONG),    RONDE_FIELD(Unit, n_bytes, T_PYSSIZET),
                             RONDE_FIELD(Unit, is_single, T_BOOL), RONDE_FIELD(Unit, is_private, T_BOOL),
                             {nullptr, 0, 0, 0, nullptr}};
PyMemberDef place_fields[] = {RONDE_FIELD(Place, view, T_OBJECT),
                              RONDE_FIELD(Place, storage, T_OBJECT),
                              RONDE_FIELD(Place, storage_number, T_OBJECT),
                              RONDE_FIELD(Place, address, T_LONGLONG),
                              RONDE_FIELD(Place, number, T_LONGLONG),
                              RONDE_FIELD(Place, own_references, T_LONG),
                              RONDE_FIELD(Place, own_holders, T_LONG),
                              RONDE_FIELD(Place, own_users, T_LONG),
                              RONDE_FIELD(Place, own_storage_references, T_LONG),
                              RONDE_FIELD(Place, busy, T_BOOL),
                              {nullptr, 0, 0, 0, nullptr}};
PyMemberDef member_fields[] = {RONDE_FIELD(Member, parameter, T_OBJECT),
                               RONDE_FIELD(Member, unit, T_OBJECT),
                               RONDE_FIELD(Member, round, T_LONG),
                               RONDE_FIELD(Member, left, T_LONG),
                               {nullptr, 0, 0, 0, nullptr}};
PyMemberDef ready_fields[] = {
    RONDE_FIELD(Ready, units, T_OBJECT), RONDE_FIELD(Ready, n_bytes, T_PYSSIZET), {nullptr, 0, 0, 0, nullptr}};
PyMemberDef arrivals_fields[] = {RONDE_OWN_FIELD(Arrivals, process_set, T_OBJECT),
                                 RONDE_OWN_FIELD(Arrivals, group, T_OBJECT),
                                 RONDE_OWN_FIELD(Arrivals, ready, T_OBJECT),
                                 RONDE_OWN_FIELD(Arrivals, origins, T_OBJECT),
                                 RONDE_OWN_FIELD(Arrivals, round, T_LONG),
                                 RONDE_OWN_FIELD(Arrivals, passes, T_LONG),
                                 RONDE_OWN_FIELD(Arrivals, in_turn, T_LONG),
                                 RONDE_OWN_FIELD(Arrivals, is_left, T_BOOL),
                                 {nullptr, 0, 0, 0, nullptr}};

#undef RONDE_FIELD
#undef RONDE_OWN_FIELD

template <typename Part>
bool add(PyObject* module, const char* name, const char* full_name, PyMemberDef* fields, PyTypeObject*& place) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(destroy<Part>)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse<Part>)},
      {Py_tp_clear, reinterpret_cast<void*>(clear<Part>)},
      {Py_tp_members, fields},
      {0, nullptr},
  };
  PyType_Spec spec = {full_name, sizeof(Part), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type = PyType_FromModuleAndSpec(module, &spec, nullptr);
  place = reinterpret_cast<PyTypeObject*>(type);  // for good
  return type != nullptr && PyModule_AddObjectRef(module, name, type) == 0;
}

}  // namespace

bool add_gradient_types(PyObject* module) {
  return add<Unit>(module, "Unit", "ronde._extension.Unit", unit_fields, types.unit) &&
         add<Place>(module, "Place", "ronde._extension.Place", place_fields, types.place) &&
         add<Member>(module, "Member", "ronde._extension.Member", member_fields, types.member) &&
         add<Ready>(module, "Ready", "ronde._extension.Ready", ready_fields, types.ready) &&
         add<Arrivals>(module, "Arrivals", "ronde._extension.Arrivals", arrivals_fields, types.arrivals);
}

}  // namespace ronde::python
