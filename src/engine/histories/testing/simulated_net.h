// SimulatedNet: what connects the ranks of a history: a pipe from each to each other (transport/messages/pipe.h), which
// carries data and agreement in the order in which they were sent, as TCP does. When a message arrives, whether links
// have room, and how much of what a rank has sent outlives it, is up to whoever drives the history. What is lent is
// read as late as it may be, so that who gives the memory away too early is found out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/histories/testing/faults.h"
#include "transport/messages/pipe.h"
#include "transport/transport.h"

namespace ronde::engine::histories {

using transport::Parts;

struct Sent {
  Pipe::Channel channel = kData;
  std::vector<std::byte> bytes;
};

/// From one rank to one other.
struct Wire {
  std::deque<Sent> arrived;    ///< and not read yet
  std::deque<Sent> under_way;  ///< on its way
  bool ends = false;           ///< nothing is sent any more; what is under way comes first
  bool has_ended = false;      ///< the reader is at the end
  bool is_cut = false;         ///< the reader is no more
  bool has_starved_writer = false;
  bool is_slow = false;
  bool was_full = false;
  std::vector<std::byte> last_payload;  ///< for faults
};

class SimulatedNet {
 public:
  /// `room`: messages that a wire takes until the reader has read some. `on_news`: called with a rank that has
  /// something to do now.
  SimulatedNet(int size, std::size_t room, std::function<void(int rank)> on_news);
  SimulatedNet(const SimulatedNet&) = delete;
  SimulatedNet& operator=(const SimulatedNet&) = delete;

  int size() const { return size_; }
  Wire& wire(int from, int to) { return wires_[static_cast<std::size_t>(from * size_ + to)]; }
  const Wire& wire(int from, int to) const { return wires_[static_cast<std::size_t>(from * size_ + to)]; }
  /// Of this rank. They must not outlive the net.
  transport::GroupLinks links(int rank);

  bool has_something_under_way(int from, int to) const {
    const Wire& wire = this->wire(from, to);
    return !wire.is_cut && (!wire.under_way.empty() || (wire.ends && !wire.has_ended));
  }
  /// So many messages arrive, or with none left the end.
  void deliver(int from, int to, std::size_t count);
  /// The rank's process dies: of what is under way from it the last messages get lost, as `survives` says for each
  /// wire.
  void kill(int rank, const std::function<std::size_t(std::size_t under_way)>& survives);
  /// The rank reads nothing any more.
  void stop_reading(int rank);
  /// A process that ends in order: sends what is kept, as far as there is room. True once all has been sent, and the
  /// wires have ended.
  bool finish(int rank);
  /// Called with each message that a wire takes.
  void on_sent(std::function<void(const Sent&)> look) { look_ = std::move(look); }
  void set_fault(FaultInLinks* fault) { fault_ = fault; }

 private:
  class SimulatedPipe;
  class SimulatedLink;
  class SimulatedTransport;

  SimulatedPipe& pipe(int own, int peer) { return *pipes_[static_cast<std::size_t>(own * size_ + peer)]; }
  bool has_room(int from, int to);
  void put(int from, int to, Sent message);
  bool get(int from, int to, Sent& message);

  const int size_;
  const std::size_t room_;
  const std::function<void(int rank)> on_news_;
  std::function<void(const Sent&)> look_;
  FaultInLinks* fault_ = nullptr;
  std::vector<Wire> wires_;
  std::vector<std::unique_ptr<SimulatedPipe>> pipes_;
};

/// One end of the two wires between two ranks.
class SimulatedNet::SimulatedPipe final : public Pipe {
 public:
  SimulatedPipe(SimulatedNet& net, int own, int peer) : net_(net), own_(own), peer_(peer) {}

  void send(Channel channel, Parts message) override {
    read_lent();
    kept_.push_back({channel, joined(message)});
    flush();
  }
  void send_lent(Channel channel, Parts message) override {
    read_lent();
    first_.assign(message.front().begin(), message.front().end());
    lent_.assign(message.begin() + 1, message.end());
    channel_of_lent_ = channel;
    is_lent_ = true;
  }
  void keep_lent() override {
    if (!reads_too_late()) {
      read_lent();
    }
  }
  void drop_lent() override { is_lent_ = false; }
  bool flush() override {
    if (is_lent_ && kept_.empty() && net_.has_room(own_, peer_)) {
      if (reads_too_late() && !std::exchange(has_lied_, true)) {
        return true;
      }
      read_lent();
    }
    while (!kept_.empty() && net_.has_room(own_, peer_)) {
      net_.put(own_, peer_, std::move(kept_.front()));
      kept_.pop_front();
    }
    return kept_.empty() && !is_lent_;
  }
  Status status() const override { return {}; }
  int descriptor() const override { return -1; }
  std::uint32_t events() const override { return 0; }
  void note_events(std::uint32_t) override {}
  bool finish_sending() override { return flush(); }

 protected:
  bool next(Channel& channel, std::vector<std::byte>& message) override {
    Sent got;
    if (net_.get(peer_, own_, got)) {
      channel = got.channel;
      message = std::move(got.bytes);
      return true;
    }
    if (net_.wire(peer_, own_).has_ended) {
      note_end();
    }
    return false;
  }

 private:
  static std::vector<std::byte> joined(Parts parts) {
    std::vector<std::byte> all;
    for (const std::span<const std::byte> part : parts) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  bool reads_too_late() const { return net_.fault_ != nullptr && net_.fault_->reads_lent_too_late(); }
  void read_lent() {
    if (!std::exchange(is_lent_, false)) {
      return;
    }
    has_lied_ = false;
    for (const std::span<const std::byte> part : lent_) {
      first_.insert(first_.end(), part.begin(), part.end());
    }
    kept_.push_back({channel_of_lent_, std::exchange(first_, {})});
  }

  SimulatedNet& net_;
  const int own_;
  const int peer_;
  std::deque<Sent> kept_;
  bool is_lent_ = false;   ///< what follows, behind what is kept
  bool has_lied_ = false;  ///< has said of what is lent that it has gone out
  Channel channel_of_lent_ = kData;
  std::vector<std::byte> first_;
  std::vector<std::span<const std::byte>> lent_;
};

class SimulatedNet::SimulatedLink final : public transport::Link {
 public:
  SimulatedLink(SimulatedPipe& pipe, Pipe::Channel channel) : pipe_(pipe), channel_(channel) {}
  void send(std::span<const std::byte> message) override { pipe_.send(channel_, Parts(&message, 1)); }
  void send_parts(Parts parts) override { pipe_.send(channel_, parts); }
  void send_lent(Parts parts) override { pipe_.send_lent(channel_, parts); }
  void keep_lent() override { pipe_.keep_lent(); }
  void drop_lent() override { pipe_.drop_lent(); }
  bool flush() override { return pipe_.flush(); }
  bool receive(std::vector<std::byte>& message) override { return pipe_.receive(channel_, message); }
  bool has_ended() const override { return pipe_.has_ended(channel_); }

 private:
  SimulatedPipe& pipe_;
  const Pipe::Channel channel_;
};

class SimulatedNet::SimulatedTransport final : public transport::Transport {
 public:
  SimulatedTransport(SimulatedNet& net, int own, Pipe::Channel channel) {
    for (int peer = 0; peer < net.size(); ++peer) {
      links_.emplace_back(net.pipe(own, peer), channel);
    }
  }
  transport::Link& link(int peer) override { return links_[static_cast<std::size_t>(peer)]; }

 private:
  std::vector<SimulatedLink> links_;
};

inline SimulatedNet::SimulatedNet(int size, std::size_t room, std::function<void(int rank)> on_news)
    : size_(size), room_(room), on_news_(std::move(on_news)), wires_(static_cast<std::size_t>(size * size)) {
  for (int own = 0; own < size; ++own) {
    for (int peer = 0; peer < size; ++peer) {
      pipes_.push_back(std::make_unique<SimulatedPipe>(*this, own, peer));
    }
  }
}

inline transport::GroupLinks SimulatedNet::links(int rank) {
  return {std::make_shared<SimulatedTransport>(*this, rank, kData),
          std::make_shared<SimulatedTransport>(*this, rank, kAgreement)};
}

inline bool SimulatedNet::has_room(int from, int to) {
  Wire& wire = this->wire(from, to);
  const bool has = wire.is_cut || wire.arrived.size() + wire.under_way.size() < room_;
  wire.has_starved_writer |= !has;
  wire.was_full |= !has;
  return has;
}

inline void SimulatedNet::put(int from, int to, Sent message) {
  Wire& wire = this->wire(from, to);
  if (wire.is_cut || wire.ends) {
    return;
  }
  if (look_) {
    look_(message);
  }
  if (fault_ != nullptr) {
    fault_->change(message.channel, message.bytes, wire.last_payload);
    if (fault_->loses(message.channel, message.bytes)) {
      return;
    }
    if (fault_->lets_overtake(message.channel, message.bytes) && !wire.under_way.empty()) {
      wire.under_way.insert(wire.under_way.end() - 1, std::move(message));
      return;
    }
  }
  wire.under_way.push_back(std::move(message));
}

inline bool SimulatedNet::get(int from, int to, Sent& message) {
  Wire& wire = this->wire(from, to);
  if (wire.arrived.empty()) {
    return false;
  }
  message = std::move(wire.arrived.front());
  wire.arrived.pop_front();
  if (std::exchange(wire.has_starved_writer, false)) {
    on_news_(from);
  }
  return true;
}

inline void SimulatedNet::deliver(int from, int to, std::size_t count) {
  Wire& wire = this->wire(from, to);
  if (wire.under_way.empty()) {
    wire.has_ended = wire.ends;
  }
  for (; count > 0 && !wire.under_way.empty(); --count) {
    wire.arrived.push_back(std::move(wire.under_way.front()));
    wire.under_way.pop_front();
  }
  on_news_(to);
}

inline void SimulatedNet::kill(int rank, const std::function<std::size_t(std::size_t under_way)>& survives) {
  stop_reading(rank);
  for (int peer = 0; peer < size_; ++peer) {
    Wire& out = wire(rank, peer);
    out.under_way.resize(survives(out.under_way.size()));
    out.ends = true;
  }
}

inline void SimulatedNet::stop_reading(int rank) {
  for (int peer = 0; peer < size_; ++peer) {
    Wire& in = wire(peer, rank);
    in.is_cut = true;
    in.arrived.clear();
    in.under_way.clear();
    if (std::exchange(in.has_starved_writer, false)) {
      on_news_(peer);
    }
  }
}

inline bool SimulatedNet::finish(int rank) {
  bool all = true;
  for (int peer = 0; peer < size_; ++peer) {
    all = (peer == rank || pipe(rank, peer).finish_sending()) && all;
  }
  for (int peer = 0; all && peer < size_; ++peer) {
    wire(rank, peer).ends = true;
  }
  return all;
}

}  // namespace ronde::engine::histories
