#include "cli/bench/ronde_contestant.h"

#include <numeric>

#include "cli/measuring/verification/expectation.h"

namespace ronde::cli {

RondeContestant::~RondeContestant() {
  close();
  ronde_shutdown();
}

bool RondeContestant::is_good(ronde_status status, const char* what) {
  if (status != RONDE_OK) {
    failure_ = std::string(what) + ": " + ronde_last_error();
  }
  return status == RONDE_OK;
}

bool RondeContestant::init() {
  topology_.struct_size = sizeof topology_;
  if (!is_good(ronde_init(nullptr), "joining the job") ||
      !is_good(ronde_get_topology(nullptr, &topology_), "joining the job")) {
    return false;
  }
  return true;
}

bool RondeContestant::allocate(const std::vector<std::uint64_t>& bytes, std::vector<void*>* places) {
  if (!shared_) {
    if (!Contestant::allocate(bytes, places)) {
      failure_ = "no memory for the tensors";
      return false;
    }
    return true;
  }
  constexpr std::uint64_t kLine = 64;
  const auto padded = [](std::uint64_t each) { return (each + kLine - 1) / kLine * kLine; };
  const std::uint64_t all = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                                            [&](std::uint64_t sum, std::uint64_t each) { return sum + padded(each); });
  const std::string name = "bench.bucket." + std::to_string(buckets_made_++);
  void* bucket = nullptr;
  if (!is_good(ronde_alloc_shared(nullptr, name.data(), name.size(), all, &bucket), "allocating a shared buffer")) {
    return false;
  }
  buckets_.push_back(bucket);
  auto* place = static_cast<std::byte*>(bucket);
  for (const std::uint64_t each : bytes) {
    places->push_back(place);
    place += padded(each);
  }
  return true;
}

void RondeContestant::make_requests(const BenchOptions& options, const std::string& label,
                                    const std::vector<TensorPlace>& tensors) {
  const std::size_t count = tensors.size();
  const ronde_dtype dtype = *parse_bench_dtype(options.dtype);
  // A name has one shape for good: what comes back under it with another one would have to be agreed upon anew.
  const std::string prefix = "bench." + std::string(bench_op_name(op_)) + "." + label + ".";
  names_.reserve(count);
  elements_.reserve(count);
  inputs_.reserve(count);
  outputs_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    names_.push_back(prefix + std::to_string(i));
    elements_.push_back(static_cast<std::int64_t>(tensors[i].bytes / bench_dtype_bytes(dtype)));
    inputs_.push_back({sizeof(ronde_tensor), tensors[i].input, &elements_[i], 1, dtype, RONDE_HOST, 0});
    outputs_.push_back(inputs_[i]);
    outputs_[i].data = tensors[i].output;
    ronde_request request = {};
    request.struct_size = sizeof request;
    request.op = op();
    request.name = names_[i].data();
    request.name_bytes = names_[i].size();
    request.reduce_op = RONDE_SUM;
    if (op_ != BenchOp::barrier) {
      request.inputs = &inputs_[i];
      request.outputs = makes_output(op_) ? nullptr : &outputs_[i];
      request.count = 1;
    }
    set_splits(request, elements_[i]);
    requests_.push_back(request);
  }
}

/// Rank 0's of a scatter, everybody's of an all-to-all; elements need not divide by the ranks.
void RondeContestant::set_splits(ronde_request& request, std::int64_t elements) {
  if (op_ != BenchOp::alltoall && !(op_ == BenchOp::scatter && rank() == 0)) {
    return;
  }
  splits_.emplace_back();
  for (int other = 0; other < size(); ++other) {
    splits_.back().push_back(
        static_cast<std::int64_t>(share_of(static_cast<std::uint64_t>(elements), other, size()).second));
  }
  request.splits = splits_.back().data();
  request.splits_count = splits_.back().size();
}

bool RondeContestant::register_requests(const BenchOptions& options) {
  if (form_ == BenchForm::slot) {
    for (const ronde_request& request : requests_) {
      slots_.push_back(-1);
      if (!is_good(ronde_register_slot(nullptr, &request, &slots_.back()), "registering a slot")) {
        slots_.pop_back();
        return false;
      }
    }
  } else if (form_ == BenchForm::persistent) {
    const bool at_once = !options.set.empty() && options.mode == SetMode::async && options.overlap_us == 0;
    const std::size_t each = at_once ? requests_.size() : 1;
    for (std::size_t i = 0; i < requests_.size(); i += each) {
      plans_.push_back(nullptr);
      if (!is_good(ronde_plan_create(nullptr, &requests_[i], each, &plans_.back()), "making a persistent plan")) {
        plans_.pop_back();
        return false;
      }
    }
  }
  return true;
}

bool RondeContestant::open(const BenchOptions& options, const std::string& label,
                           const std::vector<TensorPlace>& tensors) {
  make_requests(options, label, tensors);
  tickets_.reserve(requests_.size());
  return register_requests(options);
}

void RondeContestant::close() {
  prepare();
  for (const std::int64_t slot : slots_) {
    ronde_unregister_slot(slot);
  }
  for (ronde_plan* const plan : plans_) {
    ronde_plan_destroy(plan);
  }
  slots_.clear();
  plans_.clear();
  requests_.clear();
  outputs_.clear();
  inputs_.clear();
  elements_.clear();
  names_.clear();
  splits_.clear();
  for (void* const bucket : buckets_) {
    ronde_free_shared(bucket);
  }
  buckets_.clear();
  Contestant::close();
}

ronde_op RondeContestant::op() const { return bench_traits(op_).number; }

void RondeContestant::prepare() {
  for (ronde_ticket* const ticket : tickets_) {
    ronde_release(ticket);
  }
  tickets_.clear();
}

bool RondeContestant::run(std::size_t i) {
  if (form_ == BenchForm::persistent) {
    return is_good(ronde_plan_start(plans_[i]), "starting a plan") &&
           is_good(ronde_plan_wait(plans_[i], -1), "waiting for a plan");
  }
  if (form_ == BenchForm::slot) {
    return is_good(ronde_submit_slot(slots_[i]), "submitting a slot") &&
           is_good(ronde_wait_slot(slots_[i], -1), "waiting for a slot");
  }
  // Only a ticket that makes its output holds something that is wanted afterwards.
  if (!makes_output(op_)) {
    return is_good(ronde_execute(nullptr, &requests_[i], -1, nullptr), "executing a request");
  }
  ronde_ticket* ticket = nullptr;
  const ronde_status status = ronde_execute(nullptr, &requests_[i], -1, &ticket);
  if (ticket != nullptr) {
    tickets_.push_back(ticket);
  }
  return is_good(status, "executing a request");
}

bool RondeContestant::submit(std::size_t i) {
  if (form_ == BenchForm::persistent) {
    // A plan of all tensors starts when the last is ready.
    if (plans_.size() == requests_.size()) {
      return is_good(ronde_plan_start(plans_[i]), "starting a plan");
    }
    return i + 1 < requests_.size() || is_good(ronde_plan_start(plans_.front()), "starting a plan");
  }
  if (form_ == BenchForm::slot) {
    return is_good(ronde_submit_slot(slots_[i]), "submitting a slot");
  }
  ronde_ticket* ticket = nullptr;
  if (!is_good(ronde_submit(nullptr, &requests_[i], &ticket), "submitting a request")) {
    return false;
  }
  tickets_.push_back(ticket);
  return true;
}

bool RondeContestant::wait_all() {
  if (form_ == BenchForm::name) {
    return is_good(ronde_wait_all(tickets_.data(), tickets_.size(), -1), "waiting for requests");
  }
  for (ronde_plan* const plan : plans_) {
    if (!is_good(ronde_plan_wait(plan, -1), "waiting for a plan")) {
      return false;
    }
  }
  for (const std::int64_t slot : slots_) {
    if (!is_good(ronde_wait_slot(slot, -1), "waiting for a slot")) {
      return false;
    }
  }
  return true;
}

const void* RondeContestant::result(std::size_t i) const {
  if (!makes_output(op_)) {
    return outputs_[i].data;
  }
  ronde_ticket* ticket = form_ == BenchForm::slot || tickets_.empty() ? nullptr : tickets_[i];
  if (form_ == BenchForm::slot && ronde_slot_ticket(slots_[i], &ticket) != RONDE_OK) {
    return nullptr;
  }
  void* data = nullptr;
  if (ticket == nullptr || ronde_ticket_output(ticket, 0, &data, nullptr, nullptr, nullptr) != RONDE_OK) {
    return nullptr;
  }
  return data;
}

}  // namespace ronde::cli
