// MessageChannel: what the plans of one group need whose bytes travel as messages.
#pragma once

#include <cstdint>
#include <utility>

#include "collectives/schedule/message_limits.h"
#include "collectives/schedule/rank_layout.h"
#include "transport/messages/mailbox.h"

namespace ronde::collectives::messages {

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

}  // namespace ronde::collectives::messages
