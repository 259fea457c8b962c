// One call of Ronde in the job that is measured, from beginning to end, beside what is measured.
#pragma once

#include <ronde/ronde.h>

#include <string_view>

namespace ronde::cli {

/// In place and by name; `tensor` null: of a barrier. `reduce_op`: of a reduction. Between ronde_init and
/// ronde_shutdown.
inline ronde_status call_in_job(ronde_op op, std::string_view name, const ronde_tensor* tensor,
                                ronde_reduce_op reduce_op = RONDE_SUM) {
  ronde_request request = {};
  request.struct_size = sizeof request;
  request.op = op;
  request.reduce_op = reduce_op;
  request.name = name.data();
  request.name_bytes = name.size();
  request.inputs = request.outputs = tensor;
  request.count = tensor == nullptr ? 0 : 1;
  request.prescale = request.postscale = 1.0;
  return ronde_execute(nullptr, &request, -1, nullptr);
}

}  // namespace ronde::cli
