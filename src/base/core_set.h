// The cores that a thread may run on. As many as the machine has: more than a cpu_set_t holds, if need be.
#pragma once

#include <vector>

namespace ronde {

class CoreSet {
 public:
  /// Of the calling thread; empty if the kernel does not tell.
  static CoreSet of_this_thread();
  static CoreSet only(int core) { return of({core}); }
  static CoreSet of(const std::vector<int>& cores);

  /// From now on the calling thread runs on these alone; false if the kernel refuses.
  bool apply() const;
  /// Their numbers, ascending.
  std::vector<int> cores() const;

 private:
  std::vector<unsigned long> words_;  ///< as in a cpu_set_t
};

/// Two cores out of these that share no execution units where that can be had; fewer than two: nothing.
std::vector<int> two_apart(const std::vector<int>& cores);

}  // namespace ronde
