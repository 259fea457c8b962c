// FragmentWindow: how many fragments two ranks may have under way to each other, and which is the next.
//
// A rank has as many receive buffers for a peer as the window is wide, and a peer sends no more than that before it has
// heard that some were taken: so a rank that does not receive for a while makes nobody's queues grow. Every fragment
// says how many of the other direction's were taken so far; where none goes that way, a word without bytes says it.
// What is said is a sum, so that a word that is lost or late does no harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ronde::transport {

/// What stands before a fragment's bytes: two words of 64 bits, little-endian.
struct FragmentHead {
  static constexpr std::size_t kBytes = 16;

  std::uint64_t number = 0;  ///< from 1 on, in the order of the bytes; 0: a word without bytes
  std::uint64_t taken = 0;   ///< so many fragments of the other direction were taken

  void write(std::span<std::byte> to) const {
    std::memcpy(to.data(), &number, sizeof number);
    std::memcpy(to.data() + sizeof number, &taken, sizeof taken);
  }
  /// Requires: kBytes at least.
  static FragmentHead read(std::span<const std::byte> from) {
    FragmentHead head;
    std::memcpy(&head.number, from.data(), sizeof head.number);
    std::memcpy(&head.taken, from.data() + sizeof head.number, sizeof head.taken);
    return head;
  }
};

/// A value; one thread.
class FragmentWindow {
 public:
  /// `width`: at least 2, the same at both ends.
  explicit FragmentWindow(std::uint64_t width) : width_(width) {}

  std::uint64_t width() const { return width_; }

  // ---- Of what this end sends.

  bool may_send() const { return sent_ - taken_by_peer_ < width_; }
  /// Of the next fragment. Requires: may_send().
  FragmentHead next() {
    said_ = taken_;
    return {++sent_, taken_};
  }
  std::uint64_t sent() const { return sent_; }

  // ---- Of what the peer sends.

  /// Takes in what a head says. False if no peer that minds the window can have said it.
  bool admit(const FragmentHead& head);
  /// The number of the fragment whose bytes are next.
  std::uint64_t due() const { return taken_ + 1; }
  /// The bytes of the fragment that was due were taken.
  void note_taken() { ++taken_; }
  std::uint64_t taken() const { return taken_; }
  /// The peer might wait to hear of it.
  bool owes_word() const { return taken_ - said_ >= (width_ + 1) / 2; }
  /// Of a word without bytes.
  FragmentHead word() {
    said_ = taken_;
    return {0, taken_};
  }
  /// The word was not sent.
  void unsay() { said_ = 0; }

 private:
  const std::uint64_t width_;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_by_peer_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t said_ = 0;  ///< of taken_, what the peer was told
};

/// What a rank sets aside for each peer.
struct FragmentRoom {
  std::size_t fragment_bytes = 0;  ///< the head included
  std::size_t width = 0;           ///< of the window

  /// Words without bytes that may wait unread beside a full window: two, each after half a window was taken, and one of
  /// the greeting.
  static constexpr std::size_t kWords = 3;

  std::size_t receive_buffers() const { return width + kWords; }
  std::size_t send_buffers() const { return width + 1; }  ///< one for words
  std::size_t bytes() const { return (receive_buffers() + send_buffers()) * fragment_bytes; }

  /// For so many peers: the less for each, the more there are, so that a rank needs 64 MiB for all at most as long as
  /// that is possible. `largest`: the provider's longest message.
  static FragmentRoom for_peers(std::size_t peers, std::size_t largest);
};

}  // namespace ronde::transport
