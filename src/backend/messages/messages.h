// The backend of messages: every operation over links, with no memory in common.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "collectives/schedule/rank_layout.h"
#include "collectives/tuning/host_table.h"
#include "transport/messages/mailbox.h"

namespace ronde::backend {

class MessageBackend : public Backend {
 public:
  /// Sends what has been published of every bucket, whether links have room or not: before this member tells the others
  /// that it is frozen.
  virtual void announce() = 0;
};

/// For the group whose ranks the mailbox reaches, which must outlive the backend. Used under the mailbox's lock.
std::unique_ptr<MessageBackend> make_message_backend(transport::Mailbox& mailbox);
/// The same where ranks of one host reach each other faster than others: what all reduce is reduced in the hosts first.
/// `table`: the same on every rank.
std::unique_ptr<MessageBackend> make_message_backend(
    transport::Mailbox& mailbox, collectives::RankLayout layout,
    const collectives::HostTable& table = collectives::HostTable::built_in());

}  // namespace ronde::backend
