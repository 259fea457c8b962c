// MessageAssembler: makes messages of a stream's bytes, in whatever pieces these come.
//
// Many small messages come in one piece, and are copied out of it; the rest of a large one is read to where it stays.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
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
  /// So many bytes, one or more, lie at the beginning of the last room().
  void note_read(std::size_t bytes);

  /// Takes memory of a message that is not needed any more, for one that comes. What is too small or too large for
  /// that is freed.
  void recycle(std::vector<std::byte>&& memory);

 private:
  bool is_head_complete() const { return head_bytes_ == head_.size(); }
  /// Of the message; 0 if its length is not known yet.
  std::size_t missing() const { return is_head_complete() ? head_.length() - message_bytes_ : 0; }
  bool is_read_in_place() const;
  bool assemble();
  bool assemble_head();
  std::byte* space_for(std::size_t bytes);
  void take_piece(std::size_t bytes);
  void give_out(std::vector<std::byte>& message);
  void note_damage(const std::string& what);

  const int peer_;
  Status status_;
  std::vector<std::byte> buffer_;  ///< read and not looked at yet: [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  MessageTags tags_;  ///< of the message that is coming
  MessageHead head_;  ///< of that
  std::size_t head_bytes_ = 0;
  std::vector<std::byte> message_;  ///< as long as any message that lay there
  std::size_t message_bytes_ = 0;   ///< of the message that have come
  std::vector<std::vector<std::byte>> spares_;
};

}  // namespace ronde::transport
