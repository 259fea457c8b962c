#include "tf_c_api.h"

#include <dlfcn.h>

namespace ronde::tf {

namespace {

constexpr char kLibrary[] = "libtensorflow_framework.so.2";

Functions g_functions{};

/// Looks a function up; the first that is missing is noted.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <typename Function>
  void find(const char* name, Function*& function) {
    void* address = dlsym(library_, name);
    if (address == nullptr && missing_.empty()) {
      missing_ = name;
    }
    function = reinterpret_cast<Function*>(address);
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void find_statuses_and_tensors(Finder& in, Functions& out) {
  in.find("TF_NewStatus", out.new_status);
  in.find("TF_DeleteStatus", out.delete_status);
  in.find("TF_SetStatus", out.set_status);
  in.find("TF_GetCode", out.get_code);
  in.find("TF_Message", out.message);
  in.find("TF_TensorType", out.tensor_type);
  in.find("TF_NumDims", out.num_dims);
  in.find("TF_Dim", out.dim);
  in.find("TF_TensorByteSize", out.tensor_bytes);
  in.find("TF_TensorData", out.tensor_data);
  in.find("TF_DeleteTensor", out.delete_tensor);
}

void find_definitions(Finder& in, Functions& out) {
  in.find("TF_NewOpDefinitionBuilder", out.new_op_definition_builder);
  in.find("TF_OpDefinitionBuilderAddInput", out.add_input);
  in.find("TF_OpDefinitionBuilderAddOutput", out.add_output);
  in.find("TF_OpDefinitionBuilderAddAttr", out.add_attr);
  in.find("TF_OpDefinitionBuilderSetIsStateful", out.set_is_stateful);
  in.find("TF_OpDefinitionBuilderSetShapeInferenceFunction", out.set_shape_function);
  in.find("TF_RegisterOpDefinition", out.register_op_definition);
  in.find("TF_NewShapeHandle", out.new_shape_handle);
  in.find("TF_DeleteShapeHandle", out.delete_shape_handle);
  in.find("TF_ShapeInferenceContextNumInputs", out.num_shape_inputs);
  in.find("TF_ShapeInferenceContextGetInput", out.get_input_shape);
  in.find("TF_ShapeInferenceContextSetOutput", out.set_output_shape);
  in.find("TF_ShapeInferenceContextScalar", out.scalar_shape);
  in.find("TF_ShapeInferenceContextSetUnknownShape", out.set_unknown_shape);
}

void find_kernels(Finder& in, Functions& out) {
  in.find("TF_NewKernelBuilder", out.new_kernel_builder);
  in.find("TF_RegisterKernelBuilder", out.register_kernel_builder);
  in.find("TF_OpKernelConstruction_Failure", out.construction_failure);
  in.find("TF_OpKernelConstruction_GetAttrSize", out.get_attr_size);
  in.find("TF_OpKernelConstruction_GetAttrString", out.get_attr_string);
  in.find("TF_OpKernelConstruction_GetAttrInt64", out.get_attr_int64);
  in.find("TF_NumInputs", out.num_inputs);
  in.find("TF_NumOutputs", out.num_outputs);
  in.find("TF_GetInput", out.get_input);
  in.find("TF_SetOutput", out.set_output);
  in.find("TF_AllocateOutput", out.allocate_output);
  in.find("TF_ForwardInputOrAllocateOutput", out.forward_input_or_allocate_output);
  in.find("TF_OpKernelContext_Failure", out.context_failure);
  in.find("TF_GetFrameId", out.frame_id);
  in.find("TF_GetIterId", out.iteration);
}

}  // namespace

const Functions& functions() { return g_functions; }

std::string load() {
  // Only the one that the program has imported will do: another copy would have other registries.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    return std::string("the process has not loaded TensorFlow (") + kLibrary +
           "): import tensorflow before Ronde's part of it is loaded";
  }
  Finder finder(library);
  find_statuses_and_tensors(finder, g_functions);
  find_definitions(finder, g_functions);
  find_kernels(finder, g_functions);
  if (!finder.missing().empty()) {
    return std::string(kLibrary) + " has no function " + finder.missing() +
           ": Ronde needs TensorFlow 2.12 or newer, as it is published for Linux";
  }
  return {};
}

}  // namespace ronde::tf
