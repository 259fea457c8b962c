// What has come from peers and nobody has asked for yet, by the sender and by what it belongs to. Ranks begin
// collectives in different orders (buckets of replay fill in any order), so messages are asked for in another order
// than they come in.
//
// What is kept is bounded by how far peers run ahead, which is their schedules' affair
// (collectives/schedule/schedule.h).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace ronde::transport {

struct MessageKey {
  std::uint32_t collective = 0;  ///< which of those of a group; not the largest number
  std::uint32_t stage = 0;       ///< of its schedule
  std::uint64_t instance = 0;    ///< which time
  auto operator<=>(const MessageKey&) const = default;
};

/// A message that has come; `payload` lies in `memory`, aligned for any element.
struct Received {
  std::vector<std::byte> memory;
  std::span<const std::byte> payload;
  std::uint64_t mark = 0;  ///< as the sender gave it
  /// The payload lies in the place that was expected for it; `payload` is empty.
  bool is_placed = false;
};

/// Used under one lock. Never blocks.
class ArrivedMessages {
 public:
  /// `size`: ranks, this one included.
  explicit ArrivedMessages(int size) : kept_(static_cast<std::size_t>(size)) {}

  /// The message is one of an instance that nobody asks for any more.
  bool is_forgotten(const MessageKey& key) const;
  /// False, and nothing is kept, if there is one of this key from this rank.
  [[nodiscard]] bool put(int from, const MessageKey& key, Received&& message);
  /// False if there is none.
  bool take(int from, const MessageKey& key, Received& message);
  bool has(int from, const MessageKey& key) const { return kept_[static_cast<std::size_t>(from)].contains(key); }
  /// Forgets the messages of instances of a collective before this one, those that are yet to come too.
  void forget_before(std::uint32_t collective, std::uint64_t instance);
  /// Of a collective of which nothing comes any more.
  void forget(std::uint32_t collective);
  /// How many are kept.
  std::size_t count() const;

 private:
  std::vector<std::map<MessageKey, Received>> kept_;  ///< by sender
  std::map<std::uint32_t, std::uint64_t> first_instances_;
};

}  // namespace ronde::transport
