// Control: carries agreement messages between any two ranks, this one included.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "control/messages.h"
#include "transport/transport.h"

namespace ronde::control {

/// Called under the engine's progress lock only; never blocks.
class Control {
 public:
  /// `transport` must outlive this; it may be null in a world of one.
  Control(transport::Transport* transport, int rank, int size);

  /// In order per pair of ranks.
  void send(int to, const Envelope& envelope);
  /// The next message of anybody; false if none has arrived. Messages of one sender come in order.
  Result<bool> receive(int& from, Envelope& envelope);
  /// Pushes what had no room; true once nothing is kept.
  bool flush();
  /// The same for one peer.
  bool flush(int peer) { return peer == rank_ || transport_->link(peer).flush(); }
  /// Messages sent to other ranks so far.
  std::uint64_t sent() const { return sent_; }

 private:
  transport::Transport* transport_;
  int rank_;
  int size_;
  int next_ = 0;  ///< whom to ask first, so that nobody starves
  std::uint64_t sent_ = 0;
  std::deque<Envelope> to_self_;
  std::vector<std::byte> buffer_;
};

}  // namespace ronde::control
