// Ticket: one request under way, from submit to release. Shared by the caller who waits and the engine that works.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/requests/call_list.h"
#include "engine/requests/results.h"
#include "engine/requests/unfinished_plans.h"
#include "types/request.h"

namespace ronde::engine {

class Ticket;
using TicketPtr = std::shared_ptr<Ticket>;
/// Runs on the engine thread, exactly once.
using DoneCallback = std::function<void(const TicketPtr&, const Status&)>;

class Ticket {
 public:
  explicit Ticket(Request request, DoneCallback on_done = {})
      : request_(std::move(request)), on_done_(std::move(on_done)) {
    canonicalise(request_);
    for (const RequestTensor& pair : request_.tensors) {
      input_bytes_ += pair.input.bytes();
    }
  }

  const Request& request() const { return request_; }
  const std::string& name() const { return request_.name; }
  /// Of a barrier or join, before it is submitted: the number of the last unnamed call before it.
  void set_last_call(std::uint64_t number) { request_.call_number = number; }
  /// Of a barrier or join without a name, before it is submitted.
  void name_by_order(std::string name) { request_.name = std::move(name); }
  /// Of an unnamed call, before it is submitted.
  void plan_as(std::string planning_name) { request_.planning_name = std::move(planning_name); }
  std::size_t input_bytes() const { return input_bytes_; }

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  /// How it ended. Requires: is_done().
  const Status& status() const { return status_; }
  /// Requires: is_done() with success. Outputs if makes_outputs(kind); of a join one, with the rank that was the last
  /// to join.
  const Results& results() const { return results_; }

  /// Somebody waits for it, or asks whether it is done: what it waits for should not wait for long.
  void want() { wanted_.store(true, std::memory_order_relaxed); }
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed); }

  /// The program has been told that it has ended: it has waited for it, or asked.
  void tell() { told_.store(true, std::memory_order_relaxed); }
  bool is_told() const { return told_.load(std::memory_order_relaxed); }

  // ---- Replay's side: under its gate.

  const std::shared_ptr<CallList>& list() const { return list_; }
  /// Of an unnamed call, before it is submitted: it belongs to this list.
  void set_list(std::shared_ptr<CallList> list) { list_ = std::move(list); }
  /// CallList::asked_at(); without a list `position`: how many entries this rank has read now, as the coordinator is
  /// asked.
  std::uint64_t asked_at(std::uint64_t position) { return list_ ? list_->asked_at(position) : position; }

  /// Where the request was planned in this epoch; none in epoch 0.
  struct Place {
    std::uint32_t epoch = 0;
    std::uint32_t bucket = 0;
    std::uint32_t place = 0;
    MemoryPlace memory_place;
  };
  const Place& place() const { return place_; }
  /// When this request was last in replay, its bucket had no other: so it is full, and worth looking at, at once.
  bool is_alone() const { return alone_.load(std::memory_order_relaxed); }
  void set_alone(bool alone) { alone_.store(alone, std::memory_order_relaxed); }
  void set_place(const Place& place) { place_ = place; }
  /// When its time is up, once that is known.
  Nanoseconds deadline() const { return deadline_; }
  void set_deadline(Nanoseconds deadline) { deadline_ = deadline; }

  // ---- The engine's side: under the progress lock.

  /// Results::make_outputs() of this request.
  Status make_outputs(const std::vector<std::vector<std::int64_t>>& rows, std::size_t own, std::size_t ranks) {
    has_results_ = true;
    return results_.make_outputs(request_, rows, own, ranks);
  }
  /// Results::give() of this request.
  void give(std::int32_t number) {
    has_results_ = true;
    results_.give(request_, number);
  }
  /// Of a recv: the rank that sent.
  void set_source(int rank) { results_.set_source(rank); }
  /// Those that it is spread over, once it was agreed.
  UnfinishedPlans& plans() { return plans_; }
  /// After this the caller may go on; no other engine member is touched by it.
  void finish(Status status) {
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
  }
  /// Not a caller's: this rank has joined and takes part with these neutral values, which `memory` owns.
  void give_joined_memory(std::shared_ptr<void> memory) { joined_memory_ = std::move(memory); }
  bool is_of_joined_rank() const { return joined_memory_ != nullptr; }
  const DoneCallback& on_done() const { return on_done_; }
  /// Something that must live until the callback has run: set before each submit, taken when it has finished. Without a
  /// callback nothing is kept: the owner of a slot's ticket would own itself.
  void set_owner(std::shared_ptr<void> owner) {
    if (on_done_) {
      owner_ = std::move(owner);
    }
  }
  std::shared_ptr<void> take_owner() { return std::move(owner_); }

  // ---- The pending table's side.

  /// A ticket that is submitted again and again keeps its name in the table between two submits, so that neither
  /// submit nor wait has to look it up. Set before the first submit.
  void keep_name() { keeps_name_ = true; }
  bool keeps_name() const { return keeps_name_; }
  /// Four times a count of submits, plus a NameState.
  std::atomic<std::uint64_t>& name_word() { return name_word_; }
  /// For a slot that is submitted again. Requires: is_done() and the name is free.
  void rearm() {
    status_ = {};
    if (std::exchange(has_results_, false)) {
      results_.clear();
    }
    deadline_ = kNever;
    wanted_.store(false, std::memory_order_relaxed);
    told_.store(false, std::memory_order_relaxed);
    done_.store(false, std::memory_order_relaxed);
  }

 private:
  // What a request that is replayed needs comes first, in as few cache lines as can be: there may be thousands in a
  // step.
  std::atomic<std::uint64_t> name_word_{0};
  Place place_;
  Nanoseconds deadline_ = kNever;
  std::atomic<bool> done_{false};
  std::atomic<bool> wanted_{false};
  std::atomic<bool> alone_{false};
  std::atomic<bool> told_{false};
  bool keeps_name_ = false;
  bool has_results_ = false;  ///< so rearm() need not look at them
  Status status_;
  Request request_;
  std::size_t input_bytes_ = 0;
  DoneCallback on_done_;
  std::shared_ptr<CallList> list_;
  std::shared_ptr<void> owner_;
  std::shared_ptr<void> joined_memory_;
  Results results_;
  UnfinishedPlans plans_;
};

}  // namespace ronde::engine
