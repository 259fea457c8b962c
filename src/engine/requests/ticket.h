// Ticket: one request under way, from submit to release. Shared by the caller who waits and the engine that works.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "types/request.h"

namespace ronde::engine {

class Ticket;
using TicketPtr = std::shared_ptr<Ticket>;
/// Runs on the engine thread, exactly once.
using DoneCallback = std::function<void(const TicketPtr&, const Status&)>;

/// Memory that the engine made for an output whose size only agreement tells.
struct OwnedOutput {
  std::unique_ptr<std::byte[]> data;
  Shape shape;
};

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
  /// Requires: is_done() with success and makes_outputs(kind); one for each tensor. Of a join one, with the rank that
  /// was the last to join.
  const std::vector<OwnedOutput>& owned_outputs() const { return owned_outputs_; }
  /// The same, of an alltoall: the rows that came from each member of the group.
  const std::vector<std::int64_t>& received_splits() const { return received_splits_; }

  /// The same, of a recv: the rank that sent. Written under the progress lock.
  int source() const { return source_; }
  void set_source(int rank) { source_ = rank; }

  /// Somebody waits for it, or asks whether it is done: what it waits for should not wait for long.
  void want() { wanted_.store(true, std::memory_order_relaxed); }
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed); }

  /// The program has been told that it has ended: it has waited for it, or asked.
  void tell() { told_.store(true, std::memory_order_relaxed); }
  bool is_told() const { return told_.load(std::memory_order_relaxed); }

  // ---- Replay's side: under its gate.

  /// A list: unnamed calls that the program makes without waiting in between. It could have made each of them when it
  /// made the first, so all are asked for as of then: `asked_at` is how many log entries this rank had read when the
  /// coordinator was asked for the first. The calls share this, since they end, are waited for and go one by one.
  struct List {
    std::uint64_t asked_at = UINT64_MAX;
  };
  const std::shared_ptr<List>& list() const { return list_; }
  /// Of an unnamed call, before it is submitted: it belongs to this list.
  void set_list(std::shared_ptr<List> list) { list_ = std::move(list); }
  /// List::asked_at; without a list `position`: how many entries this rank has read now, as the coordinator is asked.
  std::uint64_t asked_at(std::uint64_t position) {
    if (!list_) {
      return position;
    }
    list_->asked_at = std::min(list_->asked_at, position);
    return list_->asked_at;
  }

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

  /// The outputs' extents are known (Plan::rows): makes their memory and points the request at it. `own` is this
  /// rank's index of the group's `ranks`.
  Status make_outputs(const std::vector<std::vector<std::int64_t>>& rows, std::size_t own, std::size_t ranks);
  /// A request with several tensors may be spread over several plans.
  void expect_plans(int count) {
    plans_left_ = count;
    plans_status_ = {};
  }
  /// Counts a plan of this ticket as ended; true if it was the last. The first failure is the ticket's.
  bool plan_finished(const Status& status) {
    if (plans_status_.is_ok()) {
      plans_status_ = status;
    }
    return --plans_left_ == 0;
  }
  const Status& plans_status() const { return plans_status_; }
  /// After this the caller may go on; no other engine member is touched by it.
  void finish(Status status) {
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
  }
  /// Its one output is this number, [1] of int32.
  void give(std::int32_t number);
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
    owned_outputs_.clear();
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
  Status status_;
  std::vector<OwnedOutput> owned_outputs_;
  Request request_;
  std::size_t input_bytes_ = 0;
  DoneCallback on_done_;
  std::shared_ptr<List> list_;
  std::vector<std::int64_t> received_splits_;
  std::shared_ptr<void> owner_;
  std::shared_ptr<void> joined_memory_;
  Status plans_status_;
  int plans_left_ = 0;
  int source_ = -1;
};

}  // namespace ronde::engine
