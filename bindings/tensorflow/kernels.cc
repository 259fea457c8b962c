#include "kernels.h"

#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <string>

#include "attributes.h"
#include "dones.h"
#include "operations.h"
#include "run.h"
#include "starts.h"

namespace ronde::tf {

namespace {

/// The value of the attribute _kernel by which a node asks for kernels that hold no thread.
constexpr char kApart[] = "apart";

void compute_topology(Run& run, const std::int64_t& what) {
  ronde_topology topology{};
  topology.struct_size = sizeof(topology);
  if (const ronde_status status = ronde_get_topology(nullptr, &topology); status != RONDE_OK) {
    run.fail(bindings::last_failure(status));
    return;
  }
  const std::int32_t values[] = {topology.rank, topology.size, topology.local_rank, topology.local_size};
  const auto index = static_cast<std::size_t>(what) % std::size(values);
  if (Tensor* tensor = run.allocate(0, DataType::int32, nullptr, 0, sizeof(std::int32_t))) {
    std::memcpy(functions().tensor_data(tensor), &values[index], sizeof(std::int32_t));
    functions().delete_tensor(tensor);
  }
}

/// Runs the body; nothing is thrown into TensorFlow.
template <typename Body>
void run_kernel(OpKernelContext* context, const Body& body) {
  Run run(context);
  guarded(run, body);
  run.finish();
}

void* create_with_attributes(OpKernelConstruction* construction) {
  std::optional<Attributes> attributes = read_attributes(construction);
  return attributes ? new (std::nothrow) Attributes(std::move(*attributes)) : nullptr;
}
void destroy_attributes(void* kernel) { delete static_cast<Attributes*>(kernel); }

void* create_topology(OpKernelConstruction* construction) {
  const std::optional<std::int64_t> what = read_integer(construction, "what");
  return what ? new (std::nothrow) std::int64_t(*what) : nullptr;
}
void destroy_topology(void* kernel) { delete static_cast<std::int64_t*>(kernel); }

template <void (*compute)(Run&, const Attributes&)>
void with_attributes(void* kernel, OpKernelContext* context) {
  const auto& attributes = *static_cast<const Attributes*>(kernel);
  run_kernel(context, [&](Run& run) {
    if (attributes.name != kNameFollows) {
      compute(run, attributes);
      return;
    }
    const char* name = take_name();
    if (name == nullptr) {
      run.fail(Code::internal, "the name of a request of Ronde was said in another thread than the one that makes it");
      return;
    }
    Attributes named = attributes;
    named.name = name;
    compute(run, named);
  });
}
template <void (*compute)(Run&)>
void without_attributes(void* /*kernel*/, OpKernelContext* context) {
  run_kernel(context, [](Run& run) { compute(run); });
}
void topology(void* kernel, OpKernelContext* context) {
  run_kernel(context, [&](Run& run) { compute_topology(run, *static_cast<const std::int64_t*>(kernel)); });
}

std::string register_kernel(const char* op, KernelBuilder* builder) {
  ScopedStatus status;
  functions().register_kernel_builder(op, builder, status.get());
  return status.is_ok() ? "" : std::string("TensorFlow refuses the kernel of ") + op + ": " + status.message();
}
std::string register_kernel(const char* op, void* (*create)(OpKernelConstruction*),
                            void (*compute)(void*, OpKernelContext*), void (*destroy)(void*)) {
  return register_kernel(op, functions().new_kernel_builder(op, "CPU", create, compute, destroy));
}

/// Of an operation that waits: for nodes with the label kApart one that holds no thread meanwhile.
template <void (*compute_async)(void*, OpKernelContext*, AsyncDone*)>
std::string register_apart(const char* op) {
  const Functions& tf = functions();
  if (!has_async_kernels()) {
    return "";
  }
  KernelBuilder* builder = tf.new_async_kernel_builder(op, "CPU", nullptr, compute_async, nullptr);
  tf.set_kernel_label(builder, kApart);
  return register_kernel(op, builder);
}

}  // namespace

std::string register_kernels() {
  const std::string problems[] = {
      register_kernel(kStart, create_with_attributes, with_attributes<compute_start>, destroy_attributes),
      register_kernel(kStartRows, create_with_attributes, with_attributes<compute_start_rows>, destroy_attributes),
      register_kernel(kDone, nullptr, without_attributes<compute_done>, nullptr),
      register_kernel(kDoneRows, nullptr, without_attributes<compute_done_rows>, nullptr),
      register_apart<compute_done_async>(kDone),
      register_apart<compute_done_rows_async>(kDoneRows),
      register_kernel(kTopology, create_topology, topology, destroy_topology),
  };
  for (const std::string& problem : problems) {
    if (!problem.empty()) {
      return problem;
    }
  }
  return {};
}

}  // namespace ronde::tf
