// MessageChannel: what the plans of one group need whose bytes travel as messages, and which schedule a plan takes. Who
// adds an operation adds a row to message_channel.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "collectives/schedule/rank_layout.h"
#include "collectives/schedule/schedule_run.h"
#include "transport/messages/mailbox.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives::messages {

/// The same on every rank.
struct MessageLimits {
  std::size_t one_turn = std::size_t{32} << 10;  ///< all-reduces and broadcasts of more bytes go in two phases
  std::size_t chunk = std::size_t{256} << 10;    ///< bytes of a message at most, a multiple of 128
  /// Up to so many ranks all-reduces of several hosts add in the order of ranks, as on one host, bit for bit, whatever
  /// that costs: so a program that is tried on two hosts gives what it gave on one. More ranks do so where a chain has
  /// that order for nothing (chain_schedule.h), else add host by host, since each host would send its numbers once for
  /// each rank of the others.
  int rank_order_to = 4;
};

/// An all-reduce's schedule and how it combines values.
struct AllreduceWay {
  std::unique_ptr<Schedule> schedule;
  std::vector<Combination> combinations;
  bool is_hierarchical = false;  ///< by hosts, be it a chain
};

/// Chosen by the layout, the sizes, the limits and the reduction alone: the same on every rank. In the first stage of
/// one that is not hierarchical every rank sends each other a message.
AllreduceWay allreduce_way(int rank, const RankLayout& layout, const MessageLimits& limits, std::size_t bytes,
                           const reduce::Reduction& reduction);

/// Used under the mailbox's lock.
class MessageChannel {
 public:
  /// Messages of plans bear this number.
  static constexpr std::uint32_t kPlans = 0;

  /// `mailbox` must outlive this and its operations.
  explicit MessageChannel(transport::Mailbox& mailbox, const MessageLimits& limits = {})
      : MessageChannel(mailbox, RankLayout::apart(mailbox.size()), limits) {}
  MessageChannel(transport::Mailbox& mailbox, RankLayout layout, const MessageLimits& limits = {})
      : mailbox_(mailbox), layout_(std::move(layout)), limits_(limits) {}

  transport::Mailbox& mailbox() const { return mailbox_; }
  int rank() const { return mailbox_.rank(); }
  int size() const { return mailbox_.size(); }
  const RankLayout& layout() const { return layout_; }
  const MessageLimits& limits() const { return limits_; }
  /// For what begins from now on. Every rank calls it between the same two operations.
  void set_limits(const MessageLimits& limits) { limits_ = limits; }
  /// Tells an operation's messages from those of others. Every rank begins the same operations in the same order.
  std::uint64_t next_instance() { return ++instance_; }

 private:
  transport::Mailbox& mailbox_;
  const RankLayout layout_;
  MessageLimits limits_;
  std::uint64_t instance_ = 0;
};

/// Whether there is a schedule for it.
bool has_schedule(OpKind kind);

/// Begins a plan; `plan` and `channel` must outlive the operation. Every rank must begin the same plans in the same
/// order, each after the last is done. Requires: has_schedule(); of what reduces, reduce::supports() its type and
/// operation.
std::unique_ptr<Operation> start(MessageChannel& channel, const Plan& plan);

}  // namespace ronde::collectives::messages
