#include "transport/tcp/tcp.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "transport/tcp/stream.h"

namespace ronde::transport {

namespace {

/// How long the end waits for peers to take what is left.
constexpr Nanoseconds kEndLimit = 500 * kMillisecond;

/// All connections of a rank, and the set of their sockets.
class Connected {
 public:
  explicit Connected(std::vector<UniqueFd> sockets) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (std::size_t peer = 0; peer < sockets.size(); ++peer) {
      if (!sockets[peer].is_open()) {
        streams_.push_back(nullptr);
        continue;
      }
      epoll_event event{};
      event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;  // each change once
      event.data.u64 = peer;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, sockets[peer].get(), &event);
      streams_.push_back(std::make_unique<Stream>(std::move(sockets[peer]), static_cast<int>(peer)));
    }
  }

  ~Connected() {
    const RealClock clock;
    const Nanoseconds deadline = later(clock.now(), kEndLimit);
    while (!have_finished() && clock.now() < deadline) {
      pollfd room{epoll_.get(), POLLIN, 0};
      ::poll(&room, 1, 1);  // what has arrived is told by nobody
      look();
    }
  }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;

  Stream& stream(std::size_t peer) { return *streams_[peer]; }
  std::size_t size() const { return streams_.size(); }
  int news_fd() const { return epoll_.get(); }

  void look() {
    std::array<epoll_event, 64> events;
    int count = 0;
    do {
      count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        streams_[event.data.u64]->note_news((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
      }
    } while (count == static_cast<int>(events.size()));
  }

 private:
  bool have_finished() {
    bool all = true;
    for (const std::unique_ptr<Stream>& each : streams_) {
      all = (!each || each->finish_sending()) && all;
    }
    return all;
  }

  UniqueFd epoll_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

class ChannelLink final : public Link {
 public:
  ChannelLink(Stream& stream, std::size_t channel) : stream_(stream), channel_(channel) {}
  void send(std::span<const std::byte> message) override { stream_.send(channel_, message); }
  bool flush() override { return stream_.flush(); }
  bool receive(std::vector<std::byte>& message) override { return stream_.receive(channel_, message); }
  Status status() const override { return stream_.status(); }
  bool has_ended() const override { return stream_.has_ended(channel_); }

 private:
  Stream& stream_;
  const std::size_t channel_;
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(std::shared_ptr<Connected> connected, std::size_t channel) : connected_(std::move(connected)) {
    for (std::size_t peer = 0; peer < connected_->size(); ++peer) {
      links_.emplace_back(connected_->stream(peer), channel);
    }
  }
  Link& link(int peer) override { return links_[static_cast<std::size_t>(peer)]; }
  void look() override { connected_->look(); }
  int news_fd() const override { return connected_->news_fd(); }

 private:
  const std::shared_ptr<Connected> connected_;
  std::vector<ChannelLink> links_;
};

}  // namespace

TcpLinks links_over(std::vector<UniqueFd> sockets, std::vector<PeerInfo> who) {
  const auto connected = std::make_shared<Connected>(std::move(sockets));
  return {std::make_shared<TcpTransport>(connected, 0), std::make_shared<TcpTransport>(connected, 1), std::move(who)};
}

}  // namespace ronde::transport
