// BytePipe: a pipe over anything that carries bytes in order between two ranks: a message is its head (message_head.h),
// then its bytes. What carries them, a socket or fragments over a fabric, is the derived class.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/job_key.h"
#include "base/status.h"
#include "transport/integrity.h"
#include "transport/messages/pipe.h"
#include "transport/tcp/message_assembler.h"
#include "transport/tcp/message_tags.h"
#include "transport/tcp/outgoing_bytes.h"

namespace ronde::transport {

/// Used under one lock. Never blocks.
class BytePipe : public Pipe {
 public:
  /// `peer`: its rank. `integrity`: the same at both ends. `sending`: the other end's `receiving`; of these bytes
  /// alone.
  BytePipe(int peer, Integrity integrity, const JobKey& sending, const JobKey& receiving);

  void send(Channel channel, Parts message) override;
  void send_lent(Channel channel, Parts message) override;
  void send(Channel channel, std::span<const std::byte> message) { send(channel, Parts(&message, 1)); }
  void keep_lent() override { outgoing_.keep_lent(); }
  void drop_lent() override;
  void recycle(std::vector<std::byte>&& memory) override { incoming_.recycle(std::move(memory)); }
  void expect_at(Channel channel, std::span<const std::byte> beginning, std::span<std::byte> place) override {
    incoming_.expect_at(channel, beginning, place);
  }
  bool take_placed(Channel channel, std::span<const std::byte> beginning) override {
    return incoming_.take_placed(channel, beginning);
  }
  void forget_place(Channel channel, std::span<const std::byte> beginning) override {
    incoming_.forget_place(channel, beginning);
  }
  void forget_places(Channel channel) override { incoming_.forget_places(channel); }
  bool flush() override;
  Status status() const override { return incoming_.status(); }

 protected:
  /// One call takes so many parts, the head included; what is left is copied.
  static constexpr std::size_t kMostParts = OutgoingBytes::kMostParts;

  /// How many bytes of all have been taken for their way; 0 if there is no room now. May call stop_sending() and return
  /// 0. Requires: at most kMostParts.
  virtual std::size_t write(Parts parts) = 0;
  /// Hands the next bytes to incoming(); false if none have come. Requires: all that was read has been taken.
  virtual bool read_more() = 0;
  /// A message ends in its middle: the peer must not wait for the rest.
  virtual void break_off() = 0;

  bool next(Channel& channel, std::vector<std::byte>& message) override;
  MessageAssembler& incoming() { return incoming_; }

  bool can_send() const { return can_send_; }
  /// Nothing is kept to be sent, and what was received had no damage.
  bool is_in_order() const { return can_send_ && outgoing_.is_empty() && incoming_.status().is_ok(); }
  /// Nothing is sent any more, and what was kept is dropped.
  void stop_sending();

 private:
  std::size_t send_some(Channel channel, Parts message);
  void send_encrypted(Channel channel, Parts message);
  void keep_rest(Parts message, std::size_t sent);

  bool can_send_ = true;
  MessageTags tags_;  ///< of what is sent
  std::vector<std::byte> encrypted_;
  OutgoingBytes outgoing_;
  MessageAssembler incoming_;
};

}  // namespace ronde::transport
