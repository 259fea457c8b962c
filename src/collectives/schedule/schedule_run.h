// ScheduleRun: carries one rank's schedule out, once or again and again, over a mailbox.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/budget.h"
#include "collectives/gather_list.h"
#include "collectives/schedule/schedule.h"
#include "reduce/reduce.h"
#include "transport/messages/mailbox.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives {

/// How values are combined.
struct Combination {
  reduce::Reduction reduction;
  std::size_t divisor = 0;  ///< this and the next as reduce::Reducer has them
  reduce::First first = reduce::First::value;
};

/// Used under the mailbox's lock.
class ScheduleRun {
 public:
  /// `lists`: what the schedule's pieces count in. `mailbox` must outlive this.
  /// `combinations`: as many as the schedule has.
  ScheduleRun(transport::Mailbox& mailbox, std::unique_ptr<Schedule> schedule, std::vector<GatherList> lists,
              const std::vector<Combination>& combinations);

  ~ScheduleRun();

  /// Other memory of the same sizes may be bound to its segments between two runs.
  GatherList& list(std::size_t index) { return lists_[index]; }
  /// From the first stage on. Requires: the run before is done, or was given up with give_up().
  void begin(std::uint32_t collective, std::uint64_t instance);
  /// The same where ranks compare what they are about to do: each sends its mark with its messages, and tells others so
  /// what it has heard; Schedule::hears_all_by() says when each has heard from all. If marks differ the run is void: it
  /// is done at once, on every rank alike, and no output was touched.
  void begin_if_alike(std::uint32_t collective, std::uint64_t instance, std::uint64_t mark);
  /// Does what can be done within the budget. `done`: outputs are there, and links have taken what others need.
  Progress advance();
  /// Hands over what is left of the first stage's messages, whether links have room or not. Requires: one is begun that
  /// is not done.
  void announce();
  /// Nothing of the memory is read any more.
  void give_up();
  bool was_void() const { return is_void_; }
  /// This rank's message of the first stage has been taken in.
  bool has_first_of(int from) const;
  bool has_heard_from_all() const {
    return finished_ >= schedule_->hears_all_by() || is_void_ ||
           (finished_ + 1 == schedule_->hears_all_by() && incoming_.incoming.empty());
  }
  /// The same, and their marks are alike: it will be finished.
  bool has_heard_all_alike() const { return has_heard_from_all() && !any_differs_; }
  /// Whom it waits for: for what they send, else for room in the link to them.
  std::vector<int> waiting_for() const;

 private:
  void reset(std::uint32_t collective, std::uint64_t instance);
  bool send_some(Budget& budget);
  void send(const Outgoing& outgoing);
  void add_parts(const Piece& piece);
  bool receive_some(Budget& budget);
  bool take(const Incoming& incoming);
  void put(const Piece& into, const std::byte* payload);
  std::span<std::byte> place_of(const Incoming& incoming) const;
  void expect_more();
  void finish_stage(Budget& budget);
  void reduce_own();
  void add_to_scratch();
  void reduce_gathered();
  void put_gathered();
  void end_void();
  void fill_own();
  bool is_over() const { return is_void_ || (finished_ == schedule_->stages() && sending_ == schedule_->stages()); }
  void describe(std::size_t index, Stage& stage) const;

  transport::Mailbox& mailbox_;
  const std::unique_ptr<Schedule> schedule_;
  std::vector<GatherList> lists_;
  const reduce::Reduction reduction_;                     ///< the first
  std::vector<std::optional<reduce::Reducer>> reducers_;  ///< by combination
  std::vector<const void*> pointers_;                     ///< of a reducer
  std::vector<std::byte> scratch_;
  std::vector<std::span<const std::byte>> parts_;
  transport::MessageKey key_;
  std::uint64_t mark_ = 0;
  bool compares_ = false;
  bool any_differs_ = false;  ///< a mark that has come
  bool is_void_ = false;

  std::size_t sending_ = 0;   ///< the stage whose messages go out
  std::size_t finished_ = 0;  ///< how many stages are
  std::size_t expected_ = 0;  ///< of how many stages it was said where the messages belong
  bool is_under_way_ = false;
  Stage outgoing_;                         ///< of sending_, without what has gone out
  Stage incoming_;                         ///< of finished_, without what has come
  Stage expected_next_;                    ///< of expected_
  std::vector<transport::Received> kept_;  ///< by rank
};

/// One schedule as an operation, which `instance` tells from others of the collective.
std::unique_ptr<Operation> scheduled_operation(transport::Mailbox& mailbox, std::unique_ptr<Schedule> schedule,
                                               std::vector<GatherList> lists,
                                               const std::vector<Combination>& combinations, std::uint32_t collective,
                                               std::uint64_t instance);

}  // namespace ronde::collectives
