// How much one call of advance() may move, so that a step of the engine stays short.
#pragma once

#include <cstddef>

namespace ronde::collectives {

inline constexpr std::size_t kBudgetBytes = std::size_t{1} << 20;

/// Counts the bytes that one call has written.
class Budget {
 public:
  /// True if a further step of `bytes` fits; the first always does.
  bool allows(std::size_t bytes) const { return !spent_anything_ || spent_ + bytes <= kBudgetBytes; }
  void spend(std::size_t bytes) {
    spent_ += bytes;
    spent_anything_ = true;
  }
  bool anything_spent() const { return spent_anything_; }

 private:
  std::size_t spent_ = 0;
  bool spent_anything_ = false;
};

}  // namespace ronde::collectives
