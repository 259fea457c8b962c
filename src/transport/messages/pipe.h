// Pipe: what two ranks send each other, whatever carries it: messages of several channels, in the order in which they
// were sent, whatever their channel. So what a rank says in one channel after it has said all in another is read in
// that order too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/messages/channel_queues.h"
#include "transport/transport.h"

namespace ronde::transport {

class HostTimeout;

/// One end. Used by one thread at a time (channels.cc has the lock). Never blocks.
class Pipe {
 public:
  using Channel = ChannelQueues::Channel;
  /// Called with the channel of each message that is kept until its channel asks; false: nobody wants it any more.
  using OnArrival = std::function<bool(Channel)>;

  Pipe() = default;
  virtual ~Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void on_arrival(OnArrival call) { on_arrival_ = std::move(call); }

  // ---- As Link has them, for one channel.

  virtual void send(Channel channel, Parts message) = 0;
  virtual void send_lent(Channel channel, Parts message) { send(channel, message); }
  virtual void keep_lent() {}
  virtual void drop_lent() {}
  virtual void recycle(std::vector<std::byte>&&) {}
  virtual void expect_at(Channel, std::span<const std::byte> /*beginning*/, std::span<std::byte> /*place*/) {}
  virtual bool take_placed(Channel, std::span<const std::byte> /*beginning*/) { return false; }
  virtual void forget_place(Channel, std::span<const std::byte> /*beginning*/) {}
  virtual void forget_places(Channel) {}
  virtual bool flush() = 0;
  bool receive(Channel channel, std::vector<std::byte>& message);
  virtual Status status() const = 0;
  bool has_ended(Channel channel) const { return has_ended_ && !has(channel); }
  /// Something is kept for the channel.
  bool has(Channel channel) const { return arrived_.has(channel); }
  /// Until something is sent or note_events() or watch() is called, flush() is true, receive() of any channel and
  /// has_ended() are false and status() is ok: nobody needs to ask.
  bool is_idle() const { return !may_have_more_ && arrived_.is_empty() && !has_ended_ && waits_for_news(); }
  /// Nobody asks for the channel any more.
  void forget(Channel channel) {
    forget_places(channel);
    arrived_.forget(channel);
  }

  // ---- For who watches it.

  /// Of news that no bell tells (Transport::news_fd()): -1 if there are none.
  virtual int descriptor() const = 0;
  /// Which events of epoll(7) are to be watched, edge-triggered.
  virtual std::uint32_t events() const = 0;
  /// Such have come.
  virtual void note_events(std::uint32_t events) = 0;
  /// Looks whether the peer's host still answers: if not, the pipe has ended. True while something is under way, so
  /// that it must be looked at again.
  virtual bool watch(Nanoseconds /*now*/, const HostTimeout& /*timeout*/) { return false; }
  /// Why it has ended, if not because the peer has closed it; as "its connection was reset".
  virtual std::string end_cause() const { return {}; }

  /// Towards the end in order: drops what arrives, sends what is kept, as far as there is room, and says then that
  /// nothing follows. True once the peer's side has taken all of it, or never will.
  bool finish();

 protected:
  /// As finish(), which has dropped what had arrived.
  virtual bool finish_sending() = 0;
  /// The next message of any channel; false if none has come whole.
  virtual bool next(Channel& channel, std::vector<std::byte>& message) = 0;
  /// Nothing is kept to be sent, what was received had no damage, and next() would give nothing until there is news.
  virtual bool waits_for_news() const { return false; }
  /// Nothing comes any more, and all that had come has been given out by next().
  void note_end() { has_ended_ = true; }
  bool is_at_end() const { return has_ended_; }

 private:
  OnArrival on_arrival_;
  ChannelQueues arrived_;
  bool may_have_more_ = true;  ///< next() has not said since that there is nothing
  bool has_ended_ = false;
};

}  // namespace ronde::transport
