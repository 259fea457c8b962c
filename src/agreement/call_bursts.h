// CallBursts: tells apart unnamed calls that look alike.
//
// Unnamed calls with one history (the same calls before them) have one planning name. A program may make many such
// before it waits for any: one for each tensor of a list of equal shapes, say. This is a burst. Each call of a burst
// needs a place of its own in the buckets, so that the list is reduced at once and may be fused: its index in the
// burst. Where a burst begins the coordinator sees in negotiation: with a call that was requested, on any rank, only
// after that rank had read the answer of the call before. Calls that a program makes without waiting for those before
// count as requested together with the first (engine/requests/unwaited_calls.h). Once buckets are in force ranks count
// for themselves: the j-th call of a planning name since then takes place j modulo the length of the burst.
//
// So all places of a planning name come into force at one position of the log, and between two bursts. A length that
// was guessed wrongly costs a break; it never pairs calls, which the numbers do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace ronde::agreement {

class CallBursts {
 public:
  /// A call of this planning name was answered: its index in its burst. `asked` and `answered` as in
  /// name_histories.h; `bytes` of its tensors.
  std::uint32_t on_answer(const std::string& planning_name, std::uint64_t bytes, std::uint64_t asked,
                          std::uint64_t answered);
  /// Its bursts are longer than was thought: what is known of them is forgotten. Returns their length till now.
  std::uint32_t forget_length(const std::string& planning_name);
  /// How many calls its bursts have; 0: not known.
  std::uint32_t length(const std::string& planning_name) const;
  /// Lengths differed so often that its calls should not be fused: any number of places of their own will do.
  bool is_uneven(const std::string& planning_name) const;
  /// The next call begins a burst, if that has the usual length.
  bool is_between(const std::string& planning_name) const;

  /// Of the planner: place `index` of a planning name.
  static std::string place_name(const std::string& planning_name, std::uint32_t index);

 private:
  struct Burst {
    std::uint64_t answered = 0;  ///< the last call
    std::uint32_t calls = 0;     ///< of the burst under way
    std::uint32_t last = 0;      ///< calls of the one before
    std::uint32_t longest = 0;
    std::uint32_t length = 0;
    std::uint32_t unequal = 0;  ///< bursts in a row of other lengths than the one before
    bool is_uneven = false;
  };

  static void end(Burst& burst);

  std::unordered_map<std::string, Burst> bursts_;
};

}  // namespace ronde::agreement
