#include "cli/bench/caller.h"

namespace ronde::cli {

Caller::Caller(const BenchOptions& options, std::uint64_t bytes, void* input, void* output)
    : op_(options.op), form_(options.form), name_("bench." + std::string(bench_op_name(options.op))) {
  request_.struct_size = sizeof request_;
  request_.op = op();
  request_.name = name_.data();
  request_.name_bytes = name_.size();
  request_.reduce_op = RONDE_SUM;
  request_.step = -1;
  if (op_ == BenchOp::barrier) {
    return;
  }
  input_.struct_size = sizeof input_;
  input_.data = input;
  input_.dtype = *parse_bench_dtype(options.dtype);
  elements_ = static_cast<std::int64_t>(bytes / ronde_dtype_bytes(input_.dtype));
  input_.shape = &elements_;
  input_.ndim = 1;
  output_ = input_;
  output_.data = output;
  request_.inputs = &input_;
  request_.outputs = op_ == BenchOp::allgather ? nullptr : &output_;
  request_.count = 1;
}

Caller::~Caller() {
  prepare();
  if (slot_ >= 0) {
    ronde_unregister_slot(slot_);
  }
}

ronde_op Caller::op() const {
  switch (op_) {
    case BenchOp::allreduce: return RONDE_ALLREDUCE;
    case BenchOp::broadcast: return RONDE_BROADCAST;
    case BenchOp::allgather: return RONDE_ALLGATHER;
    case BenchOp::barrier: break;
  }
  return RONDE_BARRIER;
}

ronde_status Caller::start() {
  return form_ == BenchForm::slot ? ronde_register_slot(nullptr, &request_, &slot_) : RONDE_OK;
}

void Caller::prepare() {
  if (ticket_ != nullptr) {
    ronde_release(ticket_);
    ticket_ = nullptr;
  }
}

ronde_status Caller::call() {
  if (form_ == BenchForm::slot) {
    const ronde_status status = ronde_submit_slot(slot_);
    return status == RONDE_OK ? ronde_wait_slot(slot_, -1) : status;
  }
  // Only an allgather's ticket holds something that is wanted afterwards.
  return ronde_execute(nullptr, &request_, -1, op_ == BenchOp::allgather ? &ticket_ : nullptr);
}

const void* Caller::result() const {
  if (op_ != BenchOp::allgather) {
    return output_.data;
  }
  ronde_ticket* ticket = ticket_;
  if (form_ == BenchForm::slot && ronde_slot_ticket(slot_, &ticket) != RONDE_OK) {
    return nullptr;
  }
  void* data = nullptr;
  const ronde_status status = ronde_ticket_output(ticket, 0, &data, nullptr, nullptr, nullptr);
  return status == RONDE_OK ? data : nullptr;
}

}  // namespace ronde::cli
