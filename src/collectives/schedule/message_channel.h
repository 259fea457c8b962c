// MessageChannel: what the plans of one group need whose bytes travel as messages, and which schedule a plan takes. Who
// adds an operation adds a row to message_channel.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/mailbox.h"
#include "types/operation.h"
#include "types/plan.h"

namespace ronde::collectives::messages {

/// The same on every rank.
struct MessageLimits {
  std::size_t one_turn = std::size_t{32} << 10;  ///< all-reduces and broadcasts of more bytes go in two phases
  std::size_t chunk = std::size_t{256} << 10;    ///< bytes of a message at most, a multiple of 128
};

/// Used under the mailbox's lock.
class MessageChannel {
 public:
  /// Messages of plans bear this number.
  static constexpr std::uint32_t kPlans = 0;

  /// `mailbox` must outlive this and its operations.
  explicit MessageChannel(transport::Mailbox& mailbox, const MessageLimits& limits = {})
      : mailbox_(mailbox), limits_(limits) {}

  transport::Mailbox& mailbox() const { return mailbox_; }
  int rank() const { return mailbox_.rank(); }
  int size() const { return mailbox_.size(); }
  const MessageLimits& limits() const { return limits_; }
  /// For what begins from now on. Every rank calls it between the same two operations.
  void set_limits(const MessageLimits& limits) { limits_ = limits; }
  /// Tells an operation's messages from those of others. Every rank begins the same operations in the same order.
  std::uint64_t next_instance() { return ++instance_; }

 private:
  transport::Mailbox& mailbox_;
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
