// Stream: what two ranks send each other over one connected stream socket: messages of several channels, in the order
// in which they were sent, whatever their channel. So what a rank says in one channel after it has said all in another
// is read in that order too.
//
// On the wire a message is a u32, its length, a u64, its channel, and then its bytes, little-endian. With a checksum
// two more words stand before the bytes: a u64, theirs, and a u32, the low half of that of all before it. So what has
// changed on the way is seen before a length is believed, and before a message is given to anybody.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/forked_children.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "transport/tcp/checksum.h"
#include "transport/tcp/silence.h"
#include "transport/transport.h"

namespace ronde::transport {

/// Used under one lock. Never blocks.
class Stream {
 public:
  using Channel = std::uint64_t;
  /// Called with each message's channel; false: nobody wants it any more.
  using OnArrival = std::function<bool(Channel)>;

  /// `socket`: connected and authenticated, of which nothing of the first message has been read. `peer`: its rank.
  /// `integrity`: the same at both ends.
  Stream(UniqueFd socket, int peer, Integrity integrity, OnArrival on_arrival = {});
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int socket() const { return socket_.get(); }

  // ---- As Link has them, for one channel.

  void send(Channel channel, std::span<const std::byte> message);
  bool flush();
  bool receive(Channel channel, std::vector<std::byte>& message);
  const Status& status() const { return status_; }
  bool has_ended(Channel channel) const { return has_ended_ && !has(channel); }
  /// Something has come for the channel.
  bool has(Channel channel) const { return arrived_.contains(channel); }
  void forget(Channel channel) { arrived_.erase(channel); }

  /// The socket has news: bytes to read, or `ends`: nothing will come after what is there. Until then receive() asks
  /// the kernel for nothing.
  void note_news(bool ends) {
    may_read_ = true;
    ends_ = ends_ || ends;
  }

  /// Looks whether the peer's host still answers: if not, the stream has ended. True while something is under way, so
  /// that it must be looked at again.
  bool watch(Nanoseconds now, const HostTimeout& timeout);
  /// Why it has ended, if not because the peer has closed it; as "its connection was reset".
  const std::string& end_cause() const { return end_cause_; }

  /// Towards the end in order: sends what is kept, as far as there is room, and says then that nothing follows. True
  /// once the peer's side has taken all of it, or never will.
  bool finish_sending();

 private:
  static constexpr std::size_t kPlainHead = sizeof(std::uint32_t) + sizeof(Channel);
  static constexpr std::size_t kSummedHead = kPlainHead + sizeof(std::uint64_t);  ///< what its own checksum covers
  using Head = std::array<std::byte, kSummedHead + sizeof(std::uint32_t)>;

  std::size_t head_size() const { return integrity_ == Integrity::off ? kPlainHead : sizeof(Head); }
  bool is_head_whole() const;
  bool is_message_whole() const;
  void note_damage(const std::string& what);
  void take_piece(std::size_t bytes);
  std::size_t length() const;
  Channel channel() const;
  void keep(std::span<const std::byte> bytes);
  std::size_t write(std::span<const std::byte> first, std::span<const std::byte> second);
  bool take_in();
  bool assemble();
  bool read_more();
  std::size_t read_into(std::byte* place, std::size_t room);
  void end();
  void note_cause(int error);

  UniqueFd socket_;
  const KeptFromForkedChildren kept_from_children_;
  const int peer_;
  const Integrity integrity_;
  Status status_;
  bool may_read_ = true;
  bool ends_ = false;
  bool has_ended_ = false;
  bool can_send_ = true;
  bool has_finished_ = false;
  Silence silence_;
  std::string end_cause_;

  std::vector<std::byte> kept_;  ///< bytes that found no room
  std::size_t kept_from_ = 0;    ///< those before it have been sent

  std::vector<std::byte> buffer_;  ///< read and not looked at yet: [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  Head head_{};  ///< of the message that is coming
  std::size_t head_bytes_ = 0;
  std::vector<std::byte> incoming_;
  std::size_t incoming_bytes_ = 0;  ///< of it that have come
  Checksum checksum_;               ///< of those
  const OnArrival on_arrival_;
  std::unordered_map<Channel, std::deque<std::vector<std::byte>>> arrived_;  ///< none is empty
};

}  // namespace ronde::transport
