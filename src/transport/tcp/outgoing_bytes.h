// OutgoingBytes: bytes that wait until there is room for them on a stream.
//
// First come bytes that are kept, in memory of their own, then bytes that others lend: these are read where they lie,
// until they have gone or are copied to what is kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace ronde::transport {

/// Moves no bytes to anywhere itself. One thread.
class OutgoingBytes {
 public:
  /// flush() offers no more parts at once.
  static constexpr std::size_t kMostParts = 64;

  bool is_empty() const { return kept_.empty() && lent_.empty(); }
  bool has_lent() const { return lent_from_ < lent_.size(); }
  /// Copies the bytes; they go last. Requires: nothing is lent.
  void keep(std::span<const std::byte> bytes) { kept_.insert(kept_.end(), bytes.begin(), bytes.end()); }
  /// The bytes go last. They are the caller's, who changes or frees them only after keep_lent(), drop(), or a flush()
  /// that has returned true.
  void lend(std::span<const std::byte> bytes) { lent_.push_back(bytes); }
  /// Copies what is lent and has not gone.
  void keep_lent();
  /// Nothing of it goes any more.
  void drop();

  /// Calls `write` with the parts that are next until it takes nothing or nothing is left; it returns how many of their
  /// bytes it has taken, and may drop() all and return 0. True: nothing is left.
  template <typename Write>
  bool flush(Write write) {
    return flush_kept(write) && flush_lent(write);
  }

 private:
  template <typename Write>
  bool flush_kept(Write& write) {
    while (kept_from_ < kept_.size()) {
      const std::span<const std::byte> rest = std::span(kept_).subspan(kept_from_);
      const std::size_t sent = write(Parts(&rest, 1));
      if (sent == 0) {
        break;
      }
      kept_from_ += sent;
    }
    forget_sent();
    return kept_.empty();
  }
  template <typename Write>
  bool flush_lent(Write& write) {
    while (has_lent()) {
      const std::size_t sent = write(Parts(lent_).subspan(lent_from_, std::min(lent_.size() - lent_from_, kMostParts)));
      if (sent == 0) {
        return lent_.empty();  // it may have been dropped
      }
      skip_lent(sent);
    }
    lent_.clear();
    lent_from_ = 0;
    return true;
  }
  void forget_sent();
  void skip_lent(std::size_t bytes);

  std::vector<std::byte> kept_;
  std::size_t kept_from_ = 0;  ///< those before it have been sent
  /// The first that has not been sent whole begins where the rest of it does.
  std::vector<std::span<const std::byte>> lent_;
  std::size_t lent_from_ = 0;  ///< those before it have been sent
};

}  // namespace ronde::transport
