#include "transport/call_numbers.h"

#include <cstddef>

namespace ronde::transport {

std::optional<int> CallNumbers::take() {
  for (std::size_t call = 0; call < is_taken_.size(); ++call) {
    if (!is_taken_[call]) {
      is_taken_.set(call);
      return static_cast<int>(call);
    }
  }
  return std::nullopt;
}

}  // namespace ronde::transport
