// MemoryPromises: how the ranks of a host ask for shared memory without being given the same bytes twice.
//
// What is left of a machine's memory says nothing of what another rank was just told it may take and has not made yet.
// So each rank says in its PromiseLine how much it is about to make, first, and then looks whether there is room for
// all that is promised: of two ranks that ask at once at least one sees the other.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "transport/arena/control_block.h"

namespace ronde::transport {

/// Any thread.
class MemoryPromises {
 public:
  /// How much memory the machine or the container still has, in bytes.
  using Room = std::function<std::uint64_t()>;

  /// What this rank is about to make, while this lives.
  class Promise {
   public:
    ~Promise() { keep(left_); }
    Promise(const Promise&) = delete;
    Promise& operator=(const Promise&) = delete;

    /// So much of it is made, or never will be.
    void keep(std::uint64_t bytes);

   private:
    friend class MemoryPromises;
    Promise(PromiseLine& line, std::uint64_t bytes);

    PromiseLine& line_;
    std::uint64_t left_;
  };

  /// The room of the machine that this process runs on.
  static std::uint64_t room_here();

  /// `lines`: of all ranks of the host, of which this one is `own`; they must outlive this.
  MemoryPromises(int own, std::vector<PromiseLine*> lines, Room room = &room_here)
      : own_(own), lines_(std::move(lines)), room_(std::move(room)) {}

  [[nodiscard]] Promise promise(std::uint64_t bytes) const;
  /// How much less room there is than all ranks have promised; 0: enough.
  std::uint64_t lack() const;

 private:
  std::uint64_t promised() const;

  int own_;
  std::vector<PromiseLine*> lines_;
  Room room_;
};

}  // namespace ronde::transport
