#include "transport/loopback/links.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "transport/expected_places.h"

namespace ronde::transport {

class LoopbackNet::Net {
 public:
  Net(int size, std::size_t room);

  int size() const { return size_; }
  Transport& transport(int rank) { return *transports_[static_cast<std::size_t>(rank)]; }

  /// False, and nothing is taken, if there is no room.
  bool put(int from, int to, std::vector<std::byte>& message) {
    const std::lock_guard lock(mutex_);
    Pipe& pipe = this->pipe(from, to);
    if (pipe.is_cut) {
      return true;
    }
    if (pipe.messages.size() >= room_) {
      pipe.has_starved_writer = true;
      return false;
    }
    pipe.messages.push_back(std::move(message));
    if (!pipe.is_held) {
      tell(to);
    }
    return true;
  }
  /// If not, the writer is told of room to come.
  bool has_room(int from, int to) {
    const std::lock_guard lock(mutex_);
    Pipe& pipe = this->pipe(from, to);
    pipe.has_starved_writer |= !pipe.is_cut && pipe.messages.size() >= room_;
    return pipe.is_cut || pipe.messages.size() < room_;
  }
  bool get(int from, int to, std::vector<std::byte>& message) {
    const std::lock_guard lock(mutex_);
    Pipe& pipe = this->pipe(from, to);
    if (pipe.is_held || pipe.messages.empty()) {
      return false;
    }
    message = std::move(pipe.messages.front());
    pipe.messages.pop_front();
    if (pipe.has_starved_writer) {
      pipe.has_starved_writer = false;
      tell(from);
    }
    return true;
  }
  void set_held(int from, int to, bool held) {
    const std::lock_guard lock(mutex_);
    Pipe& pipe = this->pipe(from, to);
    pipe.is_held = held;
    if (!held && !pipe.messages.empty()) {
      tell(to);
    }
  }
  void cut(int rank) {
    const std::lock_guard lock(mutex_);
    for (int peer = 0; peer < size_; ++peer) {
      pipe(peer, rank).messages.clear();
      for (Pipe* const each : {&pipe(rank, peer), &pipe(peer, rank)}) {
        each->is_cut = true;
        each->has_starved_writer = false;
      }
      tell(peer);
    }
  }
  std::uint64_t news(int rank) {
    const std::lock_guard lock(mutex_);
    return ranks_[static_cast<std::size_t>(rank)].news;
  }
  bool wait_for_news(int rank, std::uint64_t seen, Nanoseconds limit) {
    std::unique_lock lock(mutex_);
    Rank& waiter = ranks_[static_cast<std::size_t>(rank)];
    return waiter.news_have_come.wait_for(lock, std::chrono::nanoseconds(limit), [&] { return waiter.news > seen; });
  }

 private:
  /// From one rank to one other.
  struct Pipe {
    std::deque<std::vector<std::byte>> messages;
    bool is_held = false;
    bool is_cut = false;
    bool has_starved_writer = false;
  };
  struct Rank {
    std::condition_variable news_have_come;
    std::uint64_t news = 0;
  };

  Pipe& pipe(int from, int to) { return pipes_[static_cast<std::size_t>(from * size_ + to)]; }
  void tell(int rank) {
    Rank& reader = ranks_[static_cast<std::size_t>(rank)];
    ++reader.news;
    reader.news_have_come.notify_all();
  }

  const int size_;
  const std::size_t room_;
  std::mutex mutex_;
  std::vector<Pipe> pipes_;  ///< by sender, then by receiver
  std::vector<Rank> ranks_;
  std::vector<std::unique_ptr<Transport>> transports_;

  class LinkOf;
  class TransportOf;
};

class LoopbackNet::Net::LinkOf final : public Link {
 public:
  LinkOf(Net& net, int own, int peer) : net_(net), own_(own), peer_(peer) {}
  void send(std::span<const std::byte> message) override {
    keep_lent();
    kept_.emplace_back(message.begin(), message.end());
    flush();
  }
  void send_lent(Parts parts) override {
    keep_lent();
    first_.assign(parts.front().begin(), parts.front().end());
    lent_.assign(parts.begin() + 1, parts.end());
    is_lent_ = true;
  }
  void keep_lent() override {
    if (std::exchange(is_lent_, false)) {
      kept_.push_back(first_);
      for (const std::span<const std::byte> part : lent_) {
        kept_.back().insert(kept_.back().end(), part.begin(), part.end());
      }
    }
  }
  void drop_lent() override { is_lent_ = false; }
  bool flush() override {
    // With a full link nothing is read of what is lent.
    if (is_lent_ && kept_.empty() && net_.has_room(own_, peer_)) {
      keep_lent();
    }
    while (!kept_.empty() && net_.put(own_, peer_, kept_.front())) {
      kept_.pop_front();
    }
    return kept_.empty() && !is_lent_;
  }
  bool receive(std::vector<std::byte>& message) override {
    if (!net_.get(peer_, own_, message)) {
      return false;
    }
    if (message.size() > kBeginningBytes) {
      if (const auto place = expected_.place_for(kChannel, message, message.size()); !place.empty()) {
        std::copy(message.begin() + kBeginningBytes, message.end(), place.begin());
        expected_.note_placed(kChannel, message);
        message.resize(kBeginningBytes);
      }
    }
    return true;
  }
  void expect_at(std::span<const std::byte> beginning, std::span<std::byte> place) override {
    expected_.expect_at(kChannel, beginning, place);
  }
  bool take_placed(std::span<const std::byte> beginning) override {
    return expected_.take_placed(kChannel, beginning);
  }
  void forget_place(std::span<const std::byte> beginning) override { expected_.forget(kChannel, beginning); }
  void forget_places() override { expected_.forget_all(kChannel); }

 private:
  static constexpr ExpectedPlaces::Channel kChannel = 0;

  Net& net_;
  const int own_;
  const int peer_;
  ExpectedPlaces expected_;
  std::deque<std::vector<std::byte>> kept_;
  bool is_lent_ = false;  ///< what follows, behind what is kept
  std::vector<std::byte> first_;
  std::vector<std::span<const std::byte>> lent_;
};

class LoopbackNet::Net::TransportOf final : public Transport {
 public:
  TransportOf(Net& net, int own) {
    for (int peer = 0; peer < net.size(); ++peer) {
      links_.push_back(std::make_unique<LinkOf>(net, own, peer));
    }
  }
  Link& link(int peer) override { return *links_[static_cast<std::size_t>(peer)]; }

 private:
  std::vector<std::unique_ptr<LinkOf>> links_;
};

LoopbackNet::Net::Net(int size, std::size_t room)
    : size_(size),
      room_(room),
      pipes_(static_cast<std::size_t>(size) * static_cast<std::size_t>(size)),
      ranks_(static_cast<std::size_t>(size)) {
  for (int rank = 0; rank < size; ++rank) {
    transports_.push_back(std::make_unique<TransportOf>(*this, rank));
  }
}

LoopbackNet::LoopbackNet(int size, std::size_t room) : net_(std::make_unique<Net>(size, room)) {}
LoopbackNet::~LoopbackNet() = default;

int LoopbackNet::size() const { return net_->size(); }
Transport& LoopbackNet::transport(int rank) { return net_->transport(rank); }
void LoopbackNet::hold(int from, int to) { net_->set_held(from, to, true); }
void LoopbackNet::release(int from, int to) { net_->set_held(from, to, false); }
void LoopbackNet::release_all() {
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      release(from, to);
    }
  }
}
void LoopbackNet::cut(int rank) { net_->cut(rank); }
std::uint64_t LoopbackNet::news(int rank) const { return net_->news(rank); }
bool LoopbackNet::wait_for_news(int rank, std::uint64_t seen, Nanoseconds limit) {
  return net_->wait_for_news(rank, seen, limit);
}

}  // namespace ronde::transport
