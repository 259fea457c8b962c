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
/// Less than so much is copied out of the buffer sooner than a read is told of two places.
constexpr std::size_t kWorthAPlace = 1024;
/// Behind a large message another one is likely: its head, and not much that would have to be copied.
constexpr std::size_t kBehindALarge = 4096;

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

bool MessageAssembler::is_large() const { return head_.length() >= kLarge; }

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
  is_behind_large_ = is_large();
  if (!place_.empty()) {
    message.assign(message_.begin(), message_.begin() + kBeginningBytes);
    expected_.note_placed(head_.channel(), message);
    place_ = {};
    return;
  }
  if (!is_large()) {
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

// ---- Places

void MessageAssembler::expect_at(Pipe::Channel channel, std::span<const std::byte> beginning,
                                 std::span<std::byte> place) {
  if (place.size() + kBeginningBytes >= kLarge && tags_.integrity() != Integrity::encrypt) {
    expected_.expect_at(channel, beginning, place);
  }
}

bool MessageAssembler::take_placed(Pipe::Channel channel, std::span<const std::byte> beginning) {
  return expected_.take_placed(channel, beginning);
}

void MessageAssembler::forget_place(Pipe::Channel channel, std::span<const std::byte> beginning) {
  if (!place_.empty() && head_.channel() == channel &&
      std::ranges::equal(this->beginning(), beginning.first(kBeginningBytes))) {
    leave_place();
  }
  expected_.forget(channel, beginning);
}

void MessageAssembler::forget_places(Pipe::Channel channel) {
  if (!place_.empty() && head_.channel() == channel) {
    leave_place();
  }
  expected_.forget_all(channel);
}

/// What is coming goes on in memory of its own.
void MessageAssembler::leave_place() {
  message_.resize(std::max(message_.size(), message_bytes_));
  copy_bytes(message_.data() + kBeginningBytes, place_.data(), message_bytes_ - kBeginningBytes);
  place_ = {};
}

// ---- Assembling

/// Takes what has been read of the message that is coming; true once that is whole.
bool MessageAssembler::assemble() {
  if (!is_head_complete() && !assemble_head()) {
    return false;
  }
  if (is_beginning_missing()) {
    take_read(kBeginningBytes - message_bytes_);
    if (is_beginning_missing()) {
      return false;
    }
    place_ = expected_.place_for(head_.channel(), beginning(), head_.length());
  }
  take_read(missing());
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

/// Takes what was read of the message, but no more bytes than so many.
void MessageAssembler::take_read(std::size_t most) {
  if (const std::size_t piece = std::min(end_ - begin_, most); piece > 0) {
    copy_bytes(space_for(piece).data(), buffer_.data() + begin_, piece);
    take_piece(piece);
    begin_ += piece;
  }
}

/// Where the message's next bytes lie; there is room for so many.
std::span<std::byte> MessageAssembler::space_for(std::size_t bytes) {
  if (!place_.empty()) {
    return place_.subspan(message_bytes_ - kBeginningBytes, bytes);
  }
  if (message_.size() < message_bytes_ + bytes) {
    message_.resize(message_bytes_ + bytes);
  }
  return std::span(message_).subspan(message_bytes_, bytes);
}

/// So many more bytes of the message lie where they belong; they are in the processor's cache yet.
void MessageAssembler::take_piece(std::size_t bytes) {
  tags_.add(space_for(bytes));
  message_bytes_ += bytes;
}

// ---- Reading

std::span<std::byte> MessageAssembler::place_of_missing() {
  in_place_ = std::min(missing(), kGrowth);
  return space_for(in_place_);
}

std::span<std::byte> MessageAssembler::room() {
  begin_ = end_ = in_place_ = 0;  // all of it has been taken
  // What is missing leaves no room in the buffer for anything behind it.
  return missing() >= kBufferBytes && !is_beginning_missing() ? place_of_missing() : buffer_;
}

std::array<std::span<std::byte>, 2> MessageAssembler::rooms() {
  begin_ = end_ = in_place_ = 0;
  const std::span<std::byte> little = std::span(buffer_).first(kBehindALarge);
  if (!is_head_complete() || is_beginning_missing()) {
    return {is_behind_large_ ? little : std::span(buffer_), {}};
  }
  if (missing() < kWorthAPlace) {
    return {buffer_, {}};
  }
  const std::span<std::byte> place = place_of_missing();
  return {place, place.size() == missing() ? little : std::span<std::byte>()};
}

void MessageAssembler::note_read(std::size_t bytes) {
  const std::size_t placed = std::min(bytes, in_place_);
  if (placed > 0) {
    take_piece(placed);
  }
  end_ = bytes - placed;
}

}  // namespace ronde::transport
