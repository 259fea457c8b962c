// What is used of TensorFlow's C interface: own declarations, found by name in the TensorFlow that the process has
// loaded. So one binary serves every version that has these functions, and nothing of TensorFlow is needed to compile
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ronde::tf {

struct Status;                 ///< TF_Status
struct Tensor;                 ///< TF_Tensor: a reference to memory that TensorFlow counts
struct OpDefinitionBuilder;    ///< TF_OpDefinitionBuilder
struct ShapeInferenceContext;  ///< TF_ShapeInferenceContext
struct ShapeHandle;            ///< TF_ShapeHandle
struct KernelBuilder;          ///< TF_KernelBuilder
struct OpKernelConstruction;   ///< TF_OpKernelConstruction
struct OpKernelContext;        ///< TF_OpKernelContext

/// TF_Code, those that are used.
enum Code : int {
  ok = 0,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  already_exists = 6,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
};

/// TF_DataType, those that Ronde has too.
enum DataType : int {
  float32 = 1,
  float64 = 2,
  int32 = 3,
  uint8 = 4,
  int16 = 5,
  int8 = 6,
  complex64 = 8,
  int64 = 9,
  boolean = 10,
  bfloat16 = 14,
  uint16 = 17,
  complex128 = 18,
  float16 = 19,
  uint32 = 22,
  uint64 = 23,
};

/// The functions; all are set once load() has succeeded.
struct Functions {
  Status* (*new_status)();
  void (*delete_status)(Status*);
  void (*set_status)(Status*, Code, const char* message);
  Code (*get_code)(const Status*);
  const char* (*message)(const Status*);

  OpDefinitionBuilder* (*new_op_definition_builder)(const char* name);
  void (*add_input)(OpDefinitionBuilder*, const char* spec);
  void (*add_output)(OpDefinitionBuilder*, const char* spec);
  void (*add_attr)(OpDefinitionBuilder*, const char* spec);
  void (*set_is_stateful)(OpDefinitionBuilder*, bool);  ///< makes it stateful whatever is given: call it for true only
  void (*set_shape_function)(OpDefinitionBuilder*, void (*)(ShapeInferenceContext*, Status*));
  void (*register_op_definition)(OpDefinitionBuilder*, Status*);  ///< frees the builder

  ShapeHandle* (*new_shape_handle)();
  void (*delete_shape_handle)(ShapeHandle*);
  std::int64_t (*num_shape_inputs)(ShapeInferenceContext*);
  void (*get_input_shape)(ShapeInferenceContext*, int index, ShapeHandle*, Status*);
  void (*set_output_shape)(ShapeInferenceContext*, int index, ShapeHandle*, Status*);
  ShapeHandle* (*scalar_shape)(ShapeInferenceContext*);
  void (*set_unknown_shape)(ShapeInferenceContext*, Status*);

  KernelBuilder* (*new_kernel_builder)(const char* op, const char* device, void* (*create)(OpKernelConstruction*),
                                       void (*compute)(void*, OpKernelContext*), void (*destroy)(void*));
  void (*register_kernel_builder)(const char* name, KernelBuilder*, Status*);  ///< frees the builder
  void (*construction_failure)(OpKernelConstruction*, Status*);
  void (*get_attr_size)(OpKernelConstruction*, const char* name, std::int32_t* list, std::int32_t* total, Status*);
  void (*get_attr_string)(OpKernelConstruction*, const char* name, char* value, std::size_t max_bytes, Status*);
  void (*get_attr_int64)(OpKernelConstruction*, const char* name, std::int64_t* value, Status*);

  int (*num_inputs)(OpKernelContext*);
  int (*num_outputs)(OpKernelContext*);
  void (*get_input)(OpKernelContext*, int index, Tensor**, Status*);  ///< the caller deletes the reference
  void (*set_output)(OpKernelContext*, int index, const Tensor*, Status*);
  Tensor* (*allocate_output)(OpKernelContext*, int index, DataType, const std::int64_t* extents, int dimensions,
                             std::size_t bytes, Status*);
  Tensor* (*forward_input_or_allocate_output)(OpKernelContext*, const int* candidates, int count, int output,
                                              const std::int64_t* extents, int dimensions, int* forwarded, Status*);
  void (*context_failure)(OpKernelContext*, Status*);
  std::uint64_t (*frame_id)(OpKernelContext*);  ///< which run of a loop this is; 0 outside of loops
  std::int64_t (*iteration)(OpKernelContext*);  ///< of that loop

  DataType (*tensor_type)(const Tensor*);
  int (*num_dims)(const Tensor*);
  std::int64_t (*dim)(const Tensor*, int index);
  std::size_t (*tensor_bytes)(const Tensor*);
  void* (*tensor_data)(const Tensor*);
  void (*delete_tensor)(Tensor*);
};

/// Valid once load() has succeeded.
const Functions& functions();

/// Finds them. Returns what is missing as a sentence, empty if nothing is.
std::string load();

/// A status of TensorFlow for the duration of a scope.
class ScopedStatus {
 public:
  ScopedStatus() : status_(functions().new_status()) {}
  ScopedStatus(const ScopedStatus&) = delete;
  ScopedStatus& operator=(const ScopedStatus&) = delete;
  ~ScopedStatus() { functions().delete_status(status_); }

  Status* get() { return status_; }
  bool is_ok() const { return functions().get_code(status_) == Code::ok; }
  const char* message() const { return functions().message(status_); }

 private:
  Status* status_;
};

}  // namespace ronde::tf
