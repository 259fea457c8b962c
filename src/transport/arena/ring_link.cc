#include "transport/arena/ring_link.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/copy_bytes.h"

// One ring, from writer W to reader R, and its words:
//
//     in W's region:  head    bytes ever written            (only W stores)
//                     starved 1: W keeps bytes for want of room
//                     payload, byte i of the stream at i mod ring_bytes
//     in R's region:  tail    bytes ever read               (only R stores)
//
// The stream is a sequence of messages, each a u32 of its length and then its bytes; a message longer than the ring
// goes through in pieces. W may write bytes [head, tail + ring_bytes), R may read [tail, head).
//
// Order. W copies bytes in, then stores head (release); R loads head (acquire), copies out, then stores tail
// (release), which orders its loads before the store; W loads tail (acquire) before it writes over what was read.
//
// When a reader frees room that the writer waits for, the writer must be woken, and neither side may miss the other:
// W stores starved = 1, fence, looks at tail once more; R stores tail, fence, looks at starved and rings W's bell if
// it is set. It is the same argument as that of the bell (bell.h). "The ring was full before my read" would not do in
// place of the word: W fills the ring as of the tail it saw, R may have read on since and find it never full.
//
// Counters of a peer are believed only within bounds: 0 <= head - tail <= ring_bytes. Else the link is damaged, which
// status() says, and nothing is read or written any more.

namespace ronde::transport {

namespace {

/// Messages from this size on get memory of their own, which is used again; of smaller ones the bytes are copied.
constexpr std::size_t kRingLarge = std::size_t{16} << 10;
constexpr std::size_t kMostRingSpares = 8;
/// Memory for a message grows with the bytes that have come, not with the length that a peer announces.
constexpr std::size_t kRingGrowth = std::size_t{1} << 20;

struct alignas(kLineBytes) WriterLine {
  std::atomic<std::uint64_t> head{0};
  std::atomic<std::uint32_t> starved{0};
};
struct alignas(kLineBytes) ReaderLine {
  std::atomic<std::uint64_t> tail{0};
};
static_assert(sizeof(WriterLine) == kLineBytes && sizeof(ReaderLine) == kLineBytes);

/// Where one ring lies.
struct Ring {
  Ring(const HostArena& arena, int writer, int reader)
      : writer_line(reinterpret_cast<WriterLine*>(arena.region(writer) + arena.layout().ring_offset(reader))),
        reader_line(reinterpret_cast<ReaderLine*>(arena.region(reader) + arena.layout().tail_offset(writer))),
        payload(reinterpret_cast<std::byte*>(writer_line) + kLineBytes),
        bytes(arena.layout().ring_bytes) {}

  WriterLine* writer_line;
  ReaderLine* reader_line;
  std::byte* payload;
  std::size_t bytes;
};

/// Writes into a ring, and keeps what has no room.
class Outbox {
 public:
  Outbox(const HostArena& arena, int peer) : bells_(arena.bells()), peer_(peer), ring_(arena, arena.rank(), peer) {}

  void send(Parts message) {
    if (damaged_) {
      return;
    }
    std::uint32_t length = 0;
    for (const std::span<const std::byte> part : message) {
      length += static_cast<std::uint32_t>(part.size());
    }
    keep_lent();
    put(std::as_bytes(std::span(&length, 1)));
    for (const std::span<const std::byte> part : message) {
      put(part);
    }
    flush();
  }

  void send_lent(Parts message) {
    if (message.empty() || damaged_) {
      return;
    }
    keep_lent();
    std::uint32_t length = 0;
    for (const std::span<const std::byte> part : message) {
      length += static_cast<std::uint32_t>(part.size());
    }
    put(std::as_bytes(std::span(&length, 1)));
    put(message.front());
    lent_.assign(message.begin() + 1, message.end());
    flush();
  }

  void keep_lent() {
    for (; lent_from_ < lent_.size(); ++lent_from_) {
      backlog_.insert(backlog_.end(), lent_[lent_from_].begin(), lent_[lent_from_].end());
    }
    lent_.clear();
    lent_from_ = 0;
  }

  void drop_lent() {
    damaged_ = damaged_ || lent_from_ < lent_.size();
    lent_.clear();
    lent_from_ = 0;
  }

  bool flush() {
    const std::uint64_t before = published_;
    bool all = drain();
    if (!all && !damaged_) {
      ring_.writer_line->starved.store(1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      all = drain();
    }
    if (all && starved_) {
      ring_.writer_line->starved.store(0, std::memory_order_relaxed);
    }
    starved_ = !all;
    if (published_ != before) {
      bells_.ring(peer_);
    }
    return all;
  }

  bool damaged() const { return damaged_; }

 private:
  /// Into the ring as far as there is room and nothing older is kept, the rest into the backlog.
  void put(std::span<const std::byte> bytes) {
    if (backlog_.empty()) {
      bytes = bytes.subspan(write(bytes));
    }
    backlog_.insert(backlog_.end(), bytes.begin(), bytes.end());
  }

  /// Moves the backlog into the ring as far as it goes and publishes the head; true if nothing is left.
  bool drain() {
    kept_from_ += write(std::span(backlog_).subspan(kept_from_));
    if (kept_from_ == backlog_.size()) {
      backlog_.clear();
      kept_from_ = 0;
    } else if (kept_from_ > backlog_.size() / 2) {
      backlog_.erase(backlog_.begin(), backlog_.begin() + static_cast<std::ptrdiff_t>(kept_from_));
      kept_from_ = 0;
    }
    while (backlog_.empty() && lent_from_ < lent_.size()) {
      std::span<const std::byte>& part = lent_[lent_from_];
      part = part.subspan(write(part));
      if (!part.empty()) {
        break;
      }
      ++lent_from_;
    }
    if (published_ != head_) {
      ring_.writer_line->head.store(head_, std::memory_order_release);
      published_ = head_;
    }
    return (backlog_.empty() && lent_from_ == lent_.size()) || damaged_;
  }

  /// Copies as many bytes as there is room for; head_ moves, but is not published yet.
  std::size_t write(std::span<const std::byte> bytes) {
    std::size_t written = 0;
    while (written < bytes.size() && !damaged_) {
      if (head_ - tail_seen_ == ring_.bytes && !look_at_tail()) {
        break;
      }
      const std::size_t at = head_ & (ring_.bytes - 1);
      const std::size_t room = std::min(ring_.bytes - static_cast<std::size_t>(head_ - tail_seen_), ring_.bytes - at);
      const std::size_t piece = std::min(room, bytes.size() - written);
      copy_bytes(ring_.payload + at, bytes.data() + written, piece);
      written += piece;
      head_ += piece;
    }
    return written;
  }

  /// True if the reader has made room.
  bool look_at_tail() {
    const std::uint64_t tail = ring_.reader_line->tail.load(std::memory_order_acquire);
    // What is written but not yet published cannot have been read.
    if (tail - tail_seen_ > published_ - tail_seen_) {
      damaged_ = true;
      return false;
    }
    tail_seen_ = tail;
    return head_ - tail_seen_ < ring_.bytes;
  }

  const HostBells& bells_;
  int peer_;
  Ring ring_;
  std::uint64_t head_ = 0;
  std::uint64_t published_ = 0;  ///< the head that the reader sees
  std::uint64_t tail_seen_ = 0;
  std::vector<std::byte> backlog_;
  std::size_t kept_from_ = 0;                     ///< where in the backlog the bytes begin that are still to go
  std::vector<std::span<const std::byte>> lent_;  ///< what others lend, behind the backlog
  std::size_t lent_from_ = 0;                     ///< those before it have gone
  bool starved_ = false;
  bool damaged_ = false;
};

/// Reads messages out of a ring.
class Inbox {
 public:
  Inbox(const HostArena& arena, int peer) : bells_(arena.bells()), peer_(peer), ring_(arena, peer, arena.rank()) {}

  bool receive(std::vector<std::byte>& message) {
    const std::uint64_t before = tail_;
    const bool whole = assemble();
    if (tail_ != before) {
      ring_.reader_line->tail.store(tail_, std::memory_order_release);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (ring_.writer_line->starved.load(std::memory_order_relaxed) != 0) {
        bells_.ring(peer_);
      }
    }
    if (whole) {
      if (length_ < kRingLarge) {
        message.assign(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(length_));
      } else {
        incoming_.resize(length_);
        message = std::exchange(incoming_, {});
        if (!spares_.empty()) {
          incoming_ = std::move(spares_.back());
          spares_.pop_back();
        }
      }
      length_bytes_ = incoming_bytes_ = 0;
    }
    return whole;
  }

  void recycle(std::vector<std::byte>&& memory) {
    if (memory.size() >= kRingLarge && memory.size() <= kRingGrowth && spares_.size() < kMostRingSpares) {
      spares_.push_back(std::move(memory));
    }
  }

  bool damaged() const { return damaged_; }

 private:
  /// Takes what is there of the message under way; true once it is whole. Memory grows with the bytes that have
  /// come, not with the length announced.
  bool assemble() {
    while (length_bytes_ < sizeof length_) {
      const auto piece = next(sizeof length_ - length_bytes_);
      if (piece.empty()) {
        return false;
      }
      std::memcpy(reinterpret_cast<std::byte*>(&length_) + length_bytes_, piece.data(), piece.size());
      length_bytes_ += piece.size();
      tail_ += piece.size();
    }
    if (length_ > kMaxMessageBytes) {
      damaged_ = true;
      return false;
    }
    while (incoming_bytes_ < length_) {
      const auto piece = next(length_ - incoming_bytes_);
      if (piece.empty()) {
        return false;
      }
      if (incoming_.size() < incoming_bytes_ + piece.size()) {
        incoming_.resize(std::min<std::size_t>(length_, incoming_bytes_ + kRingGrowth));
      }
      copy_bytes(incoming_.data() + incoming_bytes_, piece.data(), piece.size());
      incoming_bytes_ += piece.size();
      tail_ += piece.size();
    }
    return true;
  }

  /// Up to `limit` bytes that lie together at the tail; empty if nothing has come.
  std::span<const std::byte> next(std::size_t limit) {
    if (tail_ == head_seen_ && !damaged_) {
      const std::uint64_t head = ring_.writer_line->head.load(std::memory_order_acquire);
      if (head - tail_ > ring_.bytes) {
        damaged_ = true;
      } else {
        head_seen_ = head;
      }
    }
    if (damaged_) {
      return {};
    }
    const std::size_t at = tail_ & (ring_.bytes - 1);
    const std::size_t there = std::min(static_cast<std::size_t>(head_seen_ - tail_), ring_.bytes - at);
    return {ring_.payload + at, std::min(there, limit)};
  }

  const HostBells& bells_;
  int peer_;
  Ring ring_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_seen_ = 0;
  std::uint32_t length_ = 0;
  std::size_t length_bytes_ = 0;     ///< of the length itself that have come
  std::vector<std::byte> incoming_;  ///< as long as any message that lay there
  std::size_t incoming_bytes_ = 0;   ///< of the message that have come
  std::vector<std::vector<std::byte>> spares_;
  bool damaged_ = false;
};

class RingLink final : public Link {
 public:
  RingLink(const HostArena& arena, int peer) : peer_(peer), outbox_(arena, peer), inbox_(arena, peer) {}

  void send(std::span<const std::byte> message) override { outbox_.send(Parts(&message, 1)); }
  void send_parts(Parts parts) override { outbox_.send(parts); }
  void send_lent(Parts parts) override { outbox_.send_lent(parts); }
  void keep_lent() override { outbox_.keep_lent(); }
  void drop_lent() override { outbox_.drop_lent(); }
  void recycle(std::vector<std::byte>&& memory) override { inbox_.recycle(std::move(memory)); }
  bool flush() override { return outbox_.flush(); }
  bool receive(std::vector<std::byte>& message) override { return inbox_.receive(message); }
  Status status() const override {
    if (!outbox_.damaged() && !inbox_.damaged()) {
      return {};
    }
    return Status::error(Code::internal, "the message ring shared with rank " + std::to_string(peer_) +
                                             " is damaged: its counters or a length in it are impossible. Something "
                                             "wrote over that process's shared memory")
        .with_rank(peer_);
  }

 private:
  int peer_;
  Outbox outbox_;
  Inbox inbox_;
};

class RingTransport final : public Transport {
 public:
  explicit RingTransport(const HostArena& arena) {
    for (int peer = 0; peer < arena.size(); ++peer) {
      links_.push_back(peer == arena.rank() ? nullptr : std::make_unique<RingLink>(arena, peer));
    }
  }
  Link& link(int peer) override { return *links_[static_cast<std::size_t>(peer)]; }

 private:
  std::vector<std::unique_ptr<RingLink>> links_;
};

}  // namespace

std::unique_ptr<Transport> make_ring_transport(HostArena& arena) { return std::make_unique<RingTransport>(arena); }

}  // namespace ronde::transport
