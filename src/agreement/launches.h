// Launches: the coordinator's part in the replay of an ordered group, whose backend needs one order of all that the
// ranks launch (docs/decisions/0021-ordered-backends.md). It hears which members have filled which bucket, and says
// when the log launches an instance: when all have. What was not launched before BREAK never is.
//
// What is logged in which order is the coordinator's affair.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"
#include "control/messages.h"

namespace ronde::agreement {

class Launches {
 public:
  enum class Due {
    nothing,
    launch,  ///< all members have filled the bucket
    stop,    ///< they have, with other unnamed calls: the epoch must end without the instance
  };

  explicit Launches(int members) : members_(static_cast<std::size_t>(members)) {}

  // ---- What was logged.

  void on_install(const control::InstallEntry& entry);
  void on_add(const control::AddEntry& entry);
  /// BREAK of the epoch that is_open().
  void on_break() { is_open_ = false; }

  /// An epoch runs of which BREAK was not logged.
  bool is_open() const { return is_open_; }
  /// Of the last INSTALL.
  std::uint32_t epoch() const { return epoch_; }

  // ---- What members say.

  /// INTERNAL if it is about another instance than the next, or said twice. What comes behind BREAK of its epoch is no
  /// matter any more.
  Result<Due> on_full(int member, const control::FullMessage& message);
  /// Whether BREAK is due.
  bool on_frozen(const control::FrozenMessage& message) const { return is_open_ && message.epoch == epoch_; }

 private:
  /// The next instance of a bucket.
  struct Filling {
    std::uint64_t launched = 0;  ///< instances of this epoch before it
    std::vector<bool> is_full;   ///< by member
    std::size_t full = 0;        ///< members
    std::uint64_t calls = 0;     ///< of the first of them
    bool differs = false;        ///< one has other calls
  };

  void add(const std::vector<std::uint32_t>& buckets);

  const std::size_t members_;
  std::uint32_t epoch_ = 0;
  bool is_open_ = false;
  std::map<std::uint32_t, Filling> filling_;  ///< by bucket, of those in force
};

}  // namespace ronde::agreement
