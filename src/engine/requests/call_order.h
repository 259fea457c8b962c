// CallOrder: the numbers of unnamed calls, by which ranks pair them: barriers and joins called before, then calls since
// the last of these. A number is a function of the calls that this rank has made before, and of nothing else: not of
// what it has waited for, not of what has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace ronde::engine {

/// Any thread.
class CallOrder {
 public:
  static constexpr int kCallBits = 40;

  /// The next call's number: barriers and joins called before, then 40 bits of calls since, from 1 on.
  std::uint64_t take_number();
  /// A barrier is called: a rank that has made a call more than the others is in step again after it. Returns the
  /// number of the last call before it.
  std::uint64_t restart();
  /// All ranks have joined. Those that had not before may have called barriers meanwhile: so many restarts count now.
  void restart_at(std::uint64_t restarts);
  std::uint64_t last_number() const;

  /// "noname.<barriers and joins>.<calls since>"
  static std::string name_of(std::uint64_t number);

 private:
  std::atomic<std::uint64_t> next_{1};
};

}  // namespace ronde::engine
