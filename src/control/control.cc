#include "control/control.h"

namespace ronde::control {

Control::Control(transport::Transport* transport, int rank, int size)
    : transport_(transport), rank_(rank), size_(size) {}

void Control::send(int to, const Envelope& envelope) {
  if (to == rank_) {
    to_self_.push_back(envelope);
    return;
  }
  transport_->link(to).send(encode(envelope));
  ++sent_;
}

Result<bool> Control::receive(int& from, Envelope& envelope) {
  if (!to_self_.empty()) {
    from = rank_;
    envelope = std::move(to_self_.front());
    to_self_.pop_front();
    return true;
  }
  for (int i = 0; i < size_; ++i) {
    const int peer = next_;
    next_ = next_ + 1 == size_ ? 0 : next_ + 1;
    if (peer == rank_) {
      continue;
    }
    transport::Link& link = transport_->link(peer);
    if (!link.receive(buffer_)) {
      RONDE_RETURN_IF_ERROR(link.status());
      continue;
    }
    Result<Envelope> decoded = decode(buffer_);
    if (!decoded) {
      return decoded.status().with_rank(peer);
    }
    from = peer;
    envelope = std::move(*decoded);
    return true;
  }
  return false;
}

bool Control::flush() {
  bool empty = true;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) {
      empty &= transport_->link(peer).flush();
    }
  }
  return empty;
}

}  // namespace ronde::control
