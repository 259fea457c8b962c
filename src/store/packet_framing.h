// PacketFraming: packets as bytes of a stream. On the stream a packet is a u32 of its length, and then its bytes, which
// may be sealed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/job_key.h"
#include "store/packet_seal.h"

namespace ronde::store {

/// One end of a stream: what is to go out, and what has come. Moves no bytes itself. One thread.
class PacketFraming {
 public:
  /// From now on packets are sealed. Once; requires: nothing of a packet has come that has not been taken.
  void seal(const JobKey& sending, const JobKey& receiving) { seal_.emplace(sending, receiving); }

  // ---- Outgoing

  /// Requires: unsent() is empty.
  void put(std::span<const std::byte> packet);
  /// What has to go out now.
  std::span<const std::byte> unsent() const { return outgoing_; }
  /// The first `bytes` of unsent() have gone.
  void note_sent(std::size_t bytes);

  // ---- Incoming

  /// How many bytes of the stream belong to what is coming, first a length, then its packet, and have not been added.
  /// 0: a packet is whole. Nothing: its length cannot be, or the packet is longer than `limit`.
  std::optional<std::size_t> missing(std::size_t limit) const;
  /// Takes the stream's next bytes, at most as many as are missing. Memory grows with what has come, not with the
  /// length that the other side announces.
  void add(std::span<const std::byte> bytes) { incoming_.insert(incoming_.end(), bytes.begin(), bytes.end()); }
  /// Gives out the packet. False: it is sealed, and damaged; `packet` is of no use then, nor the stream any more.
  /// Requires: nothing is missing.
  bool take(std::vector<std::byte>& packet);

 private:
  std::size_t seal_bytes() const { return seal_ ? PacketSeal::kBytes : 0; }

  std::optional<PacketSeal> seal_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;  ///< of one packet, its length included
};

}  // namespace ronde::store
