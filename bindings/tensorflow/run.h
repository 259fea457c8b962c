// One run of a kernel, as the bodies of kernels see it.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include <ronde/ronde.h>

#include "flights.h"
#include "tf_c_api.h"

namespace ronde::tf {

/// What TensorFlow's programs see of a failure of the engine's.
inline Code code_of(ronde_status status) {
  switch (status) {
    case RONDE_INVALID_ARGUMENT:
    case RONDE_MISMATCH: return Code::invalid_argument;
    case RONDE_NOT_INITIALIZED:
    case RONDE_FORKED: return Code::failed_precondition;
    case RONDE_NOT_IMPLEMENTED: return Code::unimplemented;
    case RONDE_DUPLICATE_NAME: return Code::already_exists;
    case RONDE_PEER_LOST:
    case RONDE_PEER_LEFT: return Code::unavailable;
    case RONDE_TIMED_OUT: return Code::deadline_exceeded;
    case RONDE_CANCELLED: return Code::aborted;
    case RONDE_OUT_OF_MEMORY: return Code::resource_exhausted;
    default: return Code::internal;
  }
}

/// One run of a kernel. What fails first is told to TensorFlow at its end.
class Run {
 public:
  explicit Run(OpKernelContext* context) : context_(context) {}

  OpKernelContext* context() const { return context_; }
  Status* status() { return status_.get(); }
  bool is_ok() const { return status_.is_ok(); }

  void fail(Code code, const std::string& message) { functions().set_status(status(), code, message.c_str()); }
  void fail(const Outcome& outcome) {
    bindings::Failures::instance().keep(outcome);
    fail(code_of(outcome.status), outcome.message);
  }

  /// A reference that the caller owns; null after a failure.
  Tensor* input(int index) {
    Tensor* tensor = nullptr;
    functions().get_input(context_, index, &tensor, status());
    return tensor;
  }
  /// A reference to memory for an output, which the caller owns; null after a failure.
  Tensor* allocate(int index, DataType type, const std::int64_t* extents, int dimensions, std::size_t bytes) {
    return functions().allocate_output(context_, index, type, extents, dimensions, bytes, status());
  }
  /// The value of a scalar of int64; 0 after a failure.
  std::int64_t integer(int index) {
    Tensor* tensor = input(index);
    std::int64_t value = 0;
    if (tensor != nullptr) {
      std::memcpy(&value, functions().tensor_data(tensor), sizeof(value));
      functions().delete_tensor(tensor);
    }
    return value;
  }
  void give_integer(int index, std::int64_t value) {
    if (Tensor* tensor = allocate(index, DataType::int64, nullptr, 0, sizeof(value))) {
      std::memcpy(functions().tensor_data(tensor), &value, sizeof(value));
      functions().delete_tensor(tensor);
    }
  }

  void finish() {
    if (!is_ok()) {
      functions().context_failure(context_, status());
    }
  }

 private:
  OpKernelContext* context_;
  ScopedStatus status_;
};

/// Runs the body, a function of a Run; what it throws is the run's failure. Throws nothing.
template <typename Body>
void guarded(Run& run, const Body& body) {
  try {
    body(run);
  } catch (const std::bad_alloc&) {
    run.fail(Code::resource_exhausted, "there is not enough memory for what Ronde was asked to do");
  } catch (const std::exception& error) {
    run.fail(Code::internal, std::string("unexpected in Ronde: ") + error.what());
  }
}

}  // namespace ronde::tf
