// Calls that a compiled program has started and whose end has not come.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "call.h"

namespace ronde::jax {

/// Of this process. Any thread, if not stated otherwise.
class Started {
 public:
  /// Never destroyed: programs may be under way while the process exits.
  static Started& instance();

  /// From now on the call is found by its number. Throws std::bad_alloc; the call is the caller's then.
  void add(Call* call);
  /// The end of the call has come, and the call is the caller's. nullptr: its execution has failed, and with it the
  /// call.
  Call* claim(std::uint64_t number);
  /// Takes away those of the execution `run`: XLA comes to no end of a program that has failed. They are the caller's.
  std::vector<Call*> take(std::int64_t run);
  /// Executions of this program, other than `run`, of which calls are left here.
  std::vector<std::int64_t> others_of(std::uint64_t program, std::int64_t run);

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Call*> calls_;  ///< by number; guarded by mutex_
};

}  // namespace ronde::jax
