#include "transport/tcp/message_assembler.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/copy_bytes.h"

namespace ronde::transport {

namespace {

/// Many small messages come in one read; the rest of a large one goes straight to where it belongs.
constexpr std::size_t kBufferBytes = std::size_t{64} << 10;
/// Memory for a message grows with the bytes that have come, not with the length that a peer announces.
constexpr std::size_t kGrowth = std::size_t{4} << 20;
/// Messages from this size on get memory of their own, which is used again; of smaller ones the bytes are copied.
constexpr std::size_t kLarge = std::size_t{16} << 10;
constexpr std::size_t kMostSpares = 8;

std::string changed_by(int peer, Integrity integrity) {
  const bool is_keyed = integrity != Integrity::checksum;
  return "what rank " + std::to_string(peer) + " has sent was changed on the way: its " +
         (is_keyed ? "MAC" : "checksum") +
         " is wrong. A network card, cable, switch or memory is broken, there or here" +
         (is_keyed ? ", or somebody changes packets" : "") + "; see RONDE_TCP_INTEGRITY";
}

}  // namespace

MessageAssembler::MessageAssembler(int peer, MessageTags tags)
    : peer_(peer), buffer_(kBufferBytes), tags_(std::move(tags)), head_(tags_.integrity()) {}

void MessageAssembler::note_damage(const std::string& what) {
  status_ = Status::error(Code::internal, what).with_rank(peer_);
}

// ---- Giving out

bool MessageAssembler::next(Pipe::Channel& channel, std::vector<std::byte>& message) {
  if (!status_.is_ok() || !assemble()) {
    return false;
  }
  channel = head_.channel();
  give_out(message);
  message_bytes_ = 0;
  head_bytes_ = 0;
  return true;
}

void MessageAssembler::give_out(std::vector<std::byte>& message) {
  const std::size_t length = head_.length();
  if (length < kLarge) {
    message.assign(message_.begin(), message_.begin() + static_cast<std::ptrdiff_t>(length));
    return;
  }
  message_.resize(length);
  message = std::exchange(message_, {});
  if (!spares_.empty()) {
    message_ = std::move(spares_.back());
    spares_.pop_back();
  }
}

void MessageAssembler::recycle(std::vector<std::byte>&& memory) {
  if (memory.size() >= kLarge && memory.size() <= kGrowth && spares_.size() < kMostSpares) {
    spares_.push_back(std::move(memory));
  }
}

// ---- Assembling

/// Takes what has been read of the message that is coming; true once that is whole.
bool MessageAssembler::assemble() {
  if (!is_head_complete() && !assemble_head()) {
    return false;
  }
  const std::size_t piece = std::min(end_ - begin_, missing());
  std::byte* const space = space_for(piece);
  if (piece > 0) {
    copy_bytes(space, buffer_.data() + begin_, piece);
    take_piece(piece);
    begin_ += piece;
  }
  if (missing() > 0) {
    return false;
  }
  if (!head_.matches(tags_)) {
    note_damage(changed_by(peer_, tags_.integrity()));
    return false;
  }
  if (tags_.integrity() == Integrity::encrypt) {
    tags_.crypt(std::span(message_).first(head_.length()));
  }
  return true;
}

bool MessageAssembler::assemble_head() {
  const std::size_t piece = std::min(end_ - begin_, head_.size() - head_bytes_);
  std::memcpy(head_.bytes().data() + head_bytes_, buffer_.data() + begin_, piece);
  begin_ += piece;
  head_bytes_ += piece;
  if (!is_head_complete()) {
    return false;
  }
  tags_.begin();
  if (!head_.is_intact(tags_)) {
    note_damage(changed_by(peer_, tags_.integrity()));
    return false;
  }
  if (head_.length() > kMaxMessageBytes) {
    note_damage("rank " + std::to_string(peer_) + " has announced a message of " + std::to_string(head_.length()) +
                " bytes");
    return false;
  }
  message_bytes_ = 0;
  return true;
}

/// Where the message's next bytes lie; there is room for so many.
std::byte* MessageAssembler::space_for(std::size_t bytes) {
  if (message_.size() < message_bytes_ + bytes) {
    message_.resize(message_bytes_ + bytes);
  }
  return message_.data() + message_bytes_;
}

/// So many more bytes of the message lie where they belong; they are in the processor's cache yet.
void MessageAssembler::take_piece(std::size_t bytes) {
  tags_.add(std::span(message_).subspan(message_bytes_, bytes));
  message_bytes_ += bytes;
}

// ---- Reading

/// What is missing leaves no room in the buffer for anything behind it.
bool MessageAssembler::is_read_in_place() const { return missing() >= kBufferBytes; }

std::span<std::byte> MessageAssembler::room() {
  begin_ = end_ = 0;  // all of it has been taken
  if (!is_read_in_place()) {
    return buffer_;
  }
  const std::size_t piece = std::min(missing(), kGrowth);
  return {space_for(piece), piece};
}

void MessageAssembler::note_read(std::size_t bytes) {
  if (is_read_in_place()) {
    take_piece(bytes);
  } else {
    end_ = bytes;
  }
}

}  // namespace ronde::transport
