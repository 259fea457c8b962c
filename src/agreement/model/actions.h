// What both halves of the model share: checks, messages, the log.
#pragma once

#include <algorithm>

#include "state.h"

namespace ronde::agreement::calls_model {

/// One step of one state. A violation is told once, the first.
class Half {
 public:
  Half(const Study& study, State& state, std::string& violation)
      : study_(study), state_(state), violation_(violation) {}

 protected:
  bool broken(Fault fault) const { return study_.fault == fault; }
  void bad(const std::string& what) {
    if (violation_.empty()) {
      violation_ = what;
    }
  }
  const Op& op_of(int rank, int index) const {
    return study_.programs[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)];
  }
  Rank& rank(int index) { return state_.ranks[static_cast<std::size_t>(index)]; }
  static std::string text(const char* what, int a) { return std::string(what) + " " + std::to_string(a); }

  const Study& study_;
  State& state_;
  std::string& violation_;
};

}  // namespace ronde::agreement::calls_model
