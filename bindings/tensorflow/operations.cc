#include "operations.h"

#include <initializer_list>

#include "tf_c_api.h"

namespace ronde::tf {

namespace {

/// Of what Ronde can move. Some operations reduce fewer of them, which the engine says by itself.
#define RONDE_TF_TYPES                                                                                          \
  "{float, double, half, bfloat16, int8, uint8, int16, uint16, int32, uint32, int64, uint64, bool, complex64, " \
  "complex128}"

/// Attributes of a request. Factors are doubles, which attributes cannot be: their bits travel as an integer.
constexpr const char* kRequest[] = {"tensor_name: string",     "op: int",           "reduce_op: int",
                                    "root: int = 0",           "group: int",        "prescale_bits: int = 0",
                                    "postscale_bits: int = 0", "call_site: int = 0"};

/// Output i has the shape of input i.
void shapes_of_inputs(ShapeInferenceContext* context, Status* status) {
  const Functions& tf = functions();
  ShapeHandle* shape = tf.new_shape_handle();
  const std::int64_t count = tf.num_shape_inputs(context);
  for (int i = 0; i < count && tf.get_code(status) == Code::ok; ++i) {
    tf.get_input_shape(context, i, shape, status);
    if (tf.get_code(status) == Code::ok) {
      tf.set_output_shape(context, i, shape, status);
    }
  }
  tf.delete_shape_handle(shape);
}

void start_shapes(ShapeInferenceContext* context, Status* status) {
  shapes_of_inputs(context, status);
  const Functions& tf = functions();
  if (tf.get_code(status) == Code::ok) {
    ShapeHandle* scalar = tf.scalar_shape(context);
    tf.set_output_shape(context, static_cast<int>(tf.num_shape_inputs(context)), scalar, status);
    tf.delete_shape_handle(scalar);
  }
}

void unknown_shapes(ShapeInferenceContext* context, Status* status) { functions().set_unknown_shape(context, status); }

void scalar_shape(ShapeInferenceContext* context, Status* status) {
  const Functions& tf = functions();
  ShapeHandle* scalar = tf.scalar_shape(context);
  tf.set_output_shape(context, 0, scalar, status);
  tf.delete_shape_handle(scalar);
}

/// The inputs of Done are its outputs, then come the tokens.
void done_shapes(ShapeInferenceContext* context, Status* status) {
  // How many of the inputs are tokens is not asked: the surplus inputs are refused as outputs, which is no error here.
  const Functions& tf = functions();
  ShapeHandle* shape = tf.new_shape_handle();
  ScopedStatus last;
  const std::int64_t count = tf.num_shape_inputs(context);
  for (int i = 0; i < count && last.is_ok(); ++i) {
    tf.get_input_shape(context, i, shape, last.get());
    if (last.is_ok()) {
      tf.set_output_shape(context, i, shape, last.get());
    }
  }
  tf.delete_shape_handle(shape);
  tf.set_status(status, Code::ok, "");
}

struct Definition {
  const char* name;
  std::initializer_list<const char*> inputs;
  std::initializer_list<const char*> outputs;
  std::initializer_list<const char*> attributes;
  bool has_request;
  void (*shapes)(ShapeInferenceContext*, Status*);
};

std::string register_operation(const Definition& definition) {
  const Functions& tf = functions();
  OpDefinitionBuilder* builder = tf.new_op_definition_builder(definition.name);
  for (const char* spec : definition.inputs) {
    tf.add_input(builder, spec);
  }
  for (const char* spec : definition.outputs) {
    tf.add_output(builder, spec);
  }
  for (const char* spec : definition.attributes) {
    tf.add_attr(builder, spec);
  }
  if (definition.has_request) {
    for (const char* spec : kRequest) {
      tf.add_attr(builder, spec);
    }
  }
  // All of them: a graph's optimiser would fold, merge or drop what has no state, and the other ranks would wait.
  tf.set_is_stateful(builder, true);
  tf.set_shape_function(builder, definition.shapes);
  ScopedStatus status;
  tf.register_op_definition(builder, status.get());
  return status.is_ok() ? ""
                        : std::string("TensorFlow refuses the operation ") + definition.name + ": " + status.message();
}

}  // namespace

std::string register_operations() {
  const Definition definitions[] = {
      {kStart,
       {"tensors: T"},
       {"outputs: T", "token: int64"},
       {"T: list(" RONDE_TF_TYPES ") >= 1"},
       true,
       start_shapes},
      {kDone,
       {"inputs: T", "tokens: N * int64"},
       {"outputs: T"},
       {"T: list(" RONDE_TF_TYPES ") >= 1", "N: int >= 1"},
       false,
       done_shapes},
      {kStartRows,
       {"tensors: T", "splits: int64"},
       {"token: int64"},
       {"T: list(" RONDE_TF_TYPES ") >= 0"},
       true,
       scalar_shape},
      {kDoneRows,
       {"token: int64"},
       {"outputs: T", "received_splits: int64"},
       {"T: list(" RONDE_TF_TYPES ") >= 0"},
       false,
       unknown_shapes},
      {kTopology, {}, {"value: int32"}, {"what: int"}, false, scalar_shape},
  };
  for (const Definition& definition : definitions) {
    if (std::string problem = register_operation(definition); !problem.empty()) {
      return problem;
    }
  }
  return {};
}

}  // namespace ronde::tf
