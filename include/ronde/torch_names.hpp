// Part of <ronde/torch.hpp>: the names by which the gradients of this process's optimizers meet those of other ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include <ronde/ronde.hpp>

namespace ronde {
inline namespace v0 {
namespace torch {
namespace detail {

/// What the names of one optimizer's gradients have in common: a prefix that no other optimizer of this process has,
/// while this object lives, and a generation, which counts how often optimizers with that prefix have given up what
/// they had under way. Ranks may have begun different gradients of what was given up: under a new name those meet
/// nothing that comes later, in this optimizer or in the next one.
///
/// The prefix is that asked for, or, while other optimizers have it, with "#1" behind it, "#2" and so on: ranks make
/// and end their optimizers in one order. A new init() begins anew. One thread at a time.
class GradientNames {
 public:
  GradientNames(const Engine* engine, Group group, const std::string& prefix)
      : job_(engine, epoch_of(engine), group.id) {
    const std::lock_guard lock(mutex());
    for (int number = 0;; ++number) {
      prefix_ = number == 0 ? prefix : prefix + "#" + std::to_string(number);
      Entry& entry = entries()[{job_, prefix_}];
      if (!entry.is_used) {
        entry.is_used = true;
        generation_ = entry.generation;
        return;
      }
    }
  }
  ~GradientNames() { release(); }
  GradientNames(const GradientNames&) = delete;
  GradientNames& operator=(const GradientNames&) = delete;

  /// Of a parameter's gradient, in every generation.
  std::string of(const std::string& parameter) const { return prefix_ + "." + parameter; }
  /// The same in this one.
  std::string now(const std::string& name) const {
    return generation_ == 0 ? name : name + "~" + std::to_string(generation_);
  }
  /// In every generation.
  const std::string& prefix() const { return prefix_; }

  std::int32_t generation() const { return generation_; }
  void set_generation(std::int32_t number) {
    const std::lock_guard lock(mutex());
    generation_ = number;
    std::int32_t& known = entries()[{job_, prefix_}].generation;
    known = std::max(known, number);
  }

  /// Another optimizer may have the prefix.
  void release() {
    const std::lock_guard lock(mutex());
    if (!is_released_) {
      entries()[{job_, prefix_}].is_used = false;
      is_released_ = true;
    }
  }

 private:
  using Job = std::tuple<const Engine*, std::uint64_t, std::int32_t>;
  struct Entry {
    std::int32_t generation = 0;
    bool is_used = false;
  };

  /// 0 before the first init().
  static std::uint64_t epoch_of(const Engine* engine) {
    try {
      return topology(engine).epoch;
    } catch (const Error&) {
      return 0;
    }
  }

  // Never destroyed: optimizers of static duration may end later.
  static std::map<std::tuple<Job, std::string>, Entry>& entries() {
    static auto* const all = new std::map<std::tuple<Job, std::string>, Entry>;
    return *all;
  }
  static std::mutex& mutex() {
    static auto* const guard = new std::mutex;
    return *guard;
  }

  const Job job_;
  std::string prefix_;
  std::int32_t generation_ = 0;
  bool is_released_ = false;
};

}  // namespace detail
}  // namespace torch
}  // namespace v0
}  // namespace ronde
