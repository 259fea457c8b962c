// PacketSeal: encrypts the packets of a connection and gives each a MAC (libsodium's secretbox, with a key for each
// direction and the packet's number as its nonce), so that nobody on the way can read, change, repeat or leave out any
// without the other side's noticing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/job_key.h"

namespace ronde::store {

/// One end of one connection, for the whole of its life: with the same keys no number may come twice. One thread.
class PacketSeal {
 public:
  /// How much longer a packet gets.
  static constexpr std::size_t kBytes = 16;

  /// `sending`: the other end's `receiving`, and used for nothing else.
  PacketSeal(const JobKey& sending, const JobKey& receiving) : sending_(sending), receiving_(receiving) {}

  /// Seals the next packet to send. Requires: `sealed` is kBytes longer than `plain`, and they do not overlap.
  void seal(std::span<const std::byte> plain, std::span<std::byte> sealed);
  /// Opens the next packet that has come. False: it is not what the other end sealed next, and nothing that `plain`
  /// holds is of use; the packet counts nevertheless. Requires: `sealed` is kBytes longer than `plain`, and they do not
  /// overlap.
  bool open(std::span<const std::byte> sealed, std::span<std::byte> plain);

 private:
  JobKey sending_;
  JobKey receiving_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace ronde::store
