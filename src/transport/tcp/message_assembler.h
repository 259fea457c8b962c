// MessageAssembler: makes messages of a stream's bytes, in whatever pieces these come.
//
// Many small messages come in one piece, and are copied out of it; the rest of a large one is read to where it stays:
// to the place that is expected for it, else to memory of its own.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/expected_places.h"
#include "transport/messages/pipe.h"
#include "transport/tcp/message_head.h"
#include "transport/tcp/message_tags.h"

namespace ronde::transport {

/// Reads nothing itself: who has a stream reads into room(), and says how much with note_read(). One thread.
class MessageAssembler {
 public:
  /// `peer`: the rank that sends, for errors. `tags`: like the sender's.
  MessageAssembler(int peer, MessageTags tags);

  /// True: gives out the next message that has come whole. False: more bytes have to be read, or there was damage
  /// (status()), after which there is no message any more.
  bool next(Pipe::Channel& channel, std::vector<std::byte>& message);
  /// INTERNAL with the peer's rank once something that came was changed on the way or cannot be.
  const Status& status() const { return status_; }

  /// Where the stream's next bytes belong; never empty. Requires: next() has returned false, without damage.
  std::span<std::byte> room();
  /// The same where a read may fill two places, the second, which may be empty, after the first: so a large message's
  /// end is read to where it stays, and the next one's beginning with it.
  std::array<std::span<std::byte>, 2> rooms();
  /// So many bytes, one or more, lie at the beginning of the last room(), or rooms().
  void note_read(std::size_t bytes);

  /// As Link has them, for one channel. Nothing is expected of small messages, nor where all is encrypted.
  void expect_at(Pipe::Channel channel, std::span<const std::byte> beginning, std::span<std::byte> place);
  bool take_placed(Pipe::Channel channel, std::span<const std::byte> beginning);
  void forget_place(Pipe::Channel channel, std::span<const std::byte> beginning);
  void forget_places(Pipe::Channel channel);

  /// Takes memory of a message that is not needed any more, for one that comes. What is too small or too large for
  /// that is freed.
  void recycle(std::vector<std::byte>&& memory);

 private:
  bool is_head_complete() const { return head_bytes_ == head_.size(); }
  /// Of the message; 0 if its length is not known yet.
  std::size_t missing() const { return is_head_complete() ? head_.length() - message_bytes_ : 0; }
  /// Requires: is_head_complete().
  bool is_large() const;
  /// Of a large message, whose beginning says whether it is expected.
  bool is_beginning_missing() const {
    return is_head_complete() && is_large() && message_bytes_ < kBeginningBytes;
  }
  std::span<const std::byte> beginning() const { return std::span(message_).first(kBeginningBytes); }
  void leave_place();
  std::span<std::byte> place_of_missing();
  bool assemble();
  bool assemble_head();
  void take_read(std::size_t most);
  std::span<std::byte> space_for(std::size_t bytes);
  void take_piece(std::size_t bytes);
  void give_out(std::vector<std::byte>& message);
  void note_damage(const std::string& what);

  const int peer_;
  Status status_;
  std::vector<std::byte> buffer_;  ///< read and not looked at yet: [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t in_place_ = 0;  ///< so many bytes of the next read are the coming message's, where they belong
  MessageTags tags_;          ///< of the message that is coming
  MessageHead head_;          ///< of that
  std::size_t head_bytes_ = 0;
  std::vector<std::byte> message_;  ///< as long as any message that lay there
  std::size_t message_bytes_ = 0;   ///< of the message that have come
  std::span<std::byte> place_;  ///< of the message's bytes behind its beginning, if it is expected; else empty
  bool is_behind_large_ = false;  ///< the last message was large
  ExpectedPlaces expected_;
  std::vector<std::vector<std::byte>> spares_;
};

}  // namespace ronde::transport
