#include "transport/tcp/outgoing_bytes.h"

namespace ronde::transport {

void OutgoingBytes::keep_lent() {
  for (; lent_from_ < lent_.size(); ++lent_from_) {
    kept_.insert(kept_.end(), lent_[lent_from_].begin(), lent_[lent_from_].end());
  }
  lent_.clear();
  lent_from_ = 0;
}

void OutgoingBytes::drop() {
  kept_.clear();
  kept_from_ = 0;
  lent_.clear();
  lent_from_ = 0;
}

/// Moves what is kept to the front only when that is less than what has been sent.
void OutgoingBytes::forget_sent() {
  if (kept_from_ >= kept_.size()) {
    kept_.clear();
    kept_from_ = 0;
  } else if (kept_from_ > kept_.size() / 2) {
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(kept_from_));
    kept_from_ = 0;
  }
}

void OutgoingBytes::skip_lent(std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t gone = std::min(bytes, lent_[lent_from_].size());
    lent_[lent_from_] = lent_[lent_from_].subspan(gone);
    lent_from_ += lent_[lent_from_].empty() ? 1 : 0;
    bytes -= gone;
  }
}

}  // namespace ronde::transport
