#include "transport/messages/channels.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace ronde::transport {

namespace {

/// How long the end waits for peers to take what is left: on a machine that has more to do than it can, a peer that
/// runs may be kept from it for most of a second.
constexpr Nanoseconds kEndLimit = 2 * kSecond;

/// The channels of group `number`; the job's is 0.
Pipe::Channel data_channel(std::uint64_t number) { return number * 2; }
Pipe::Channel agreement_channel(std::uint64_t number) { return number * 2 + 1; }
std::uint64_t number_of(Pipe::Channel channel) { return channel / 2; }

/// All pipes of a rank, and the set of their descriptors. Any thread.
class Connected {
 public:
  Connected(std::vector<std::unique_ptr<Pipe>> pipes, const HostTimeout& timeout, NewsDescriptors news,
            std::shared_ptr<void> beneath, std::shared_ptr<SharedNews> shared)
      : beneath_(std::move(beneath)),
        shared_(std::move(shared)),
        timeout_(timeout),
        epoll_(std::move(news.epoll)),
        watch_timer_(std::move(news.timer)),
        pipes_(std::move(pipes)),
        idle_(pipes_.size()) {
    add(watch_timer_.get(), EPOLLIN, kWatchTimer);
    for (const SharedNews::Watched& each : shared_ ? shared_->descriptors() : std::vector<SharedNews::Watched>()) {
      add(each.fd, each.is_edge ? EPOLLIN | EPOLLET : EPOLLIN, kShared);
    }
    for (std::size_t peer = 0; peer < pipes_.size(); ++peer) {
      if (!pipes_[peer]) {
        continue;
      }
      pipes_[peer]->on_arrival([this](Pipe::Channel channel) { return note_arrival(channel); });
      if (pipes_[peer]->descriptor() >= 0) {
        add(pipes_[peer]->descriptor(), pipes_[peer]->events() | EPOLLET, peer);
      }
    }
  }

  ~Connected() { finish(); }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;

  /// What `call` does with the pipe to a rank.
  template <typename Call>
  auto with(int peer, const Call& call) {
    const Held held(*this, peer);
    return call(held.pipe());
  }
  /// The same with a call that asks for what Pipe::is_idle() knows, which then is `known`: most of a step's questions
  /// are such, and need no lock.
  template <typename Call, typename Answer>
  Answer ask(int peer, const Answer& known, const Call& call) {
    return idle_[static_cast<std::size_t>(peer)].load(std::memory_order_acquire) ? known : with(peer, call);
  }
  /// The same with a call that sends.
  template <typename Call>
  void sending(int peer, const Call& call) {
    const Held held(*this, peer);
    call(held.pipe());
    if (!is_watching_) {
      watch_again();
    }
  }
  /// Waits once: false if that was too short.
  bool finish() {
    const RealClock clock;
    const Nanoseconds deadline = later(clock.now(), has_waited_.exchange(true) ? 0 : kEndLimit);
    while (!have_finished()) {
      if (clock.now() >= deadline) {
        return false;
      }
      pollfd room{epoll_.get(), POLLIN, 0};
      ::poll(&room, 1, 1);  // what has arrived is told by nobody
      look();
    }
    return true;
  }
  int size() const { return static_cast<int>(pipes_.size()); }
  int news_fd() const { return epoll_.get(); }

  void look() {
    std::lock_guard lock(mutex_);
    std::array<epoll_event, 64> events;
    int count = 0;
    do {
      count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.u64 == kWatchTimer) {
          watch();
        } else if (event.data.u64 == kShared) {
          shared_->note_events();
        } else {
          pipes_[event.data.u64]->note_events(event.events);
          note_idle(event.data.u64);
        }
      }
    } while (count == static_cast<int>(events.size()));
    if (shared_) {
      shared_->look();
    }
  }

  void open(std::uint64_t number, std::function<void()> on_arrival) {
    std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Pipe>& each : pipes_) {
      if (each && (each->has(data_channel(number)) || each->has(agreement_channel(number)))) {
        on_arrival();
      }
    }
    groups_[number] = std::move(on_arrival);
  }
  void close(std::uint64_t number) {
    std::lock_guard lock(mutex_);
    groups_.erase(number);
    closed_.insert(number);
    for (const std::unique_ptr<Pipe>& each : pipes_) {
      if (each) {
        each->forget(data_channel(number));
        each->forget(agreement_channel(number));
      }
    }
  }

 private:
  /// In place of peers.
  static constexpr std::uint64_t kWatchTimer = ~std::uint64_t{0};
  static constexpr std::uint64_t kShared = kWatchTimer - 1;

  /// The pipe to a rank, under the lock.
  class Held {
   public:
    Held(Connected& connected, int peer)
        : connected_(connected), lock_(connected.mutex_), peer_(static_cast<std::size_t>(peer)) {}
    ~Held() { connected_.note_idle(peer_); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    Pipe& pipe() const { return *connected_.pipes_[peer_]; }

   private:
    Connected& connected_;
    const std::lock_guard<std::mutex> lock_;
    const std::size_t peer_;
  };

  /// After whatever may have changed a pipe. Under the lock.
  void note_idle(std::size_t peer) {
    idle_[peer].store(pipes_[peer] && pipes_[peer]->is_idle(), std::memory_order_release);
  }

  void add(int fd, std::uint32_t events, std::uint64_t of) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = of;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  /// While something is under way to a peer its host is watched, once a tick: whoever sleeps until there is news is
  /// woken by the timer. Both under the lock.
  void watch_again() {
    if (timeout_.is_ever()) {
      itimerspec when{};
      when.it_value.tv_sec = timeout_.tick() / kSecond;
      when.it_value.tv_nsec = timeout_.tick() % kSecond;
      is_watching_ = ::timerfd_settime(watch_timer_.get(), 0, &when, nullptr) == 0;
    }
  }
  void watch() {
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t got = ::read(watch_timer_.get(), &expirations, sizeof expirations);
    const Nanoseconds now = RealClock().now();
    bool any = false;
    for (std::size_t peer = 0; peer < pipes_.size(); ++peer) {
      any = (pipes_[peer] && pipes_[peer]->watch(now, timeout_)) || any;
      note_idle(peer);
    }
    is_watching_ = false;
    if (any) {
      watch_again();
    }
  }

  /// What comes before a group is opened here is kept. Under the lock.
  bool note_arrival(Pipe::Channel channel) {
    const std::uint64_t number = number_of(channel);
    if (number == 0) {
      return true;
    }
    if (const auto group = groups_.find(number); group != groups_.end()) {
      group->second();
      return true;
    }
    return !closed_.contains(number);
  }

  bool have_finished() {
    std::lock_guard lock(mutex_);
    bool all = true;
    for (std::size_t peer = 0; peer < pipes_.size(); ++peer) {
      all = (!pipes_[peer] || pipes_[peer]->finish()) && all;
      idle_[peer].store(false, std::memory_order_release);
    }
    return all;
  }

  const std::shared_ptr<void> beneath_;
  const std::shared_ptr<SharedNews> shared_;
  const HostTimeout timeout_;
  std::atomic<bool> has_waited_ = false;
  UniqueFd epoll_;
  UniqueFd watch_timer_;
  std::mutex mutex_;
  bool is_watching_ = false;                  ///< the timer is set; guarded by mutex_, as all below
  std::vector<std::unique_ptr<Pipe>> pipes_;  ///< by rank
  /// By rank: Pipe::is_idle() since the lock was last held for it. Written under the lock, read by anybody.
  std::vector<std::atomic<bool>> idle_;
  std::unordered_map<std::uint64_t, std::function<void()>> groups_;  ///< by number
  std::unordered_set<std::uint64_t> closed_;                         ///< numbers are not used again
};

/// What a channel's transport does when it goes.
using Closing = std::shared_ptr<void>;

class ChannelLink final : public Link {
 public:
  ChannelLink(Connected& connected, int peer, Pipe::Channel channel)
      : connected_(connected), peer_(peer), channel_(channel) {}
  void send(std::span<const std::byte> message) override { send_parts(Parts(&message, 1)); }
  void send_parts(Parts parts) override {
    connected_.sending(peer_, [&](Pipe& pipe) { pipe.send(channel_, parts); });
  }
  void send_lent(Parts parts) override {
    connected_.sending(peer_, [&](Pipe& pipe) { pipe.send_lent(channel_, parts); });
  }
  void keep_lent() override {
    connected_.with(peer_, [](Pipe& pipe) { pipe.keep_lent(); });
  }
  void drop_lent() override {
    connected_.with(peer_, [](Pipe& pipe) { pipe.drop_lent(); });
  }
  void recycle(std::vector<std::byte>&& memory) override {
    connected_.with(peer_, [&](Pipe& pipe) { pipe.recycle(std::move(memory)); });
  }
  void expect_at(std::span<const std::byte> beginning, std::span<std::byte> place) override {
    connected_.with(peer_, [&](Pipe& pipe) { pipe.expect_at(channel_, beginning, place); });
  }
  bool take_placed(std::span<const std::byte> beginning) override {
    return connected_.with(peer_, [&](Pipe& pipe) { return pipe.take_placed(channel_, beginning); });
  }
  void forget_place(std::span<const std::byte> beginning) override {
    connected_.with(peer_, [&](Pipe& pipe) { pipe.forget_place(channel_, beginning); });
  }
  void forget_places() override {
    connected_.with(peer_, [&](Pipe& pipe) { pipe.forget_places(channel_); });
  }
  bool flush() override {
    return connected_.ask(peer_, true, [](Pipe& pipe) { return pipe.flush(); });
  }
  bool receive(std::vector<std::byte>& message) override {
    return connected_.ask(peer_, false, [&](Pipe& pipe) { return pipe.receive(channel_, message); });
  }
  Status status() const override {
    return connected_.ask(peer_, Status(), [](Pipe& pipe) { return pipe.status(); });
  }
  bool has_ended() const override {
    return connected_.ask(peer_, false, [&](Pipe& pipe) { return pipe.has_ended(channel_); });
  }
  std::string end_cause() const override {
    return connected_.with(peer_, [](Pipe& pipe) { return pipe.end_cause(); });
  }

 private:
  Connected& connected_;
  const int peer_;
  const Pipe::Channel channel_;
};

class ChannelTransport final : public Transport {
 public:
  ChannelTransport(std::shared_ptr<Connected> connected, const std::vector<int>& members, Pipe::Channel channel,
                   Closing closing = {})
      : connected_(std::move(connected)), closing_(std::move(closing)), looks_(number_of(channel) == 0) {
    for (const int member : members) {
      links_.emplace_back(*connected_, member, channel);
    }
  }
  Link& link(int peer) override { return links_[static_cast<std::size_t>(peer)]; }
  /// The job's alone looks: what it sees it reads, for all groups. Another's look would take from it news of what it
  /// reads only in its next step, before which the rank may sleep.
  void look() override {
    if (looks_) {
      connected_->look();
    }
  }
  int news_fd() const override { return connected_->news_fd(); }
  bool finish() override { return connected_->finish(); }

 private:
  const std::shared_ptr<Connected> connected_;
  const Closing closing_;
  const bool looks_;
  std::vector<ChannelLink> links_;
};

class ChannelsForGroups final : public LinksForGroups {
 public:
  explicit ChannelsForGroups(std::shared_ptr<Connected> connected) : connected_(std::move(connected)) {}

  GroupLinks open(std::uint64_t number, const std::vector<int>& members, std::function<void()> on_arrival) override {
    connected_->open(number, std::move(on_arrival));
    const Closing closing(nullptr, [connected = connected_, number](void*) { connected->close(number); });
    return {std::make_shared<ChannelTransport>(connected_, members, data_channel(number), closing),
            std::make_shared<ChannelTransport>(connected_, members, agreement_channel(number), closing)};
  }

 private:
  const std::shared_ptr<Connected> connected_;
};

}  // namespace

Result<NewsDescriptors> NewsDescriptors::make() {
  NewsDescriptors news;
  news.epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
  news.timer.reset(news.epoll.is_open() ? ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK) : -1);
  if (!news.timer.is_open()) {
    return Status::from_errno("watching connections", errno);
  }
  return news;
}

JobLinks links_over(std::vector<std::unique_ptr<Pipe>> pipes, std::vector<PeerInfo> who, const HostTimeout& timeout,
                    NewsDescriptors news, std::shared_ptr<void> beneath, std::shared_ptr<SharedNews> shared) {
  const auto connected =
      std::make_shared<Connected>(std::move(pipes), timeout, std::move(news), std::move(beneath), std::move(shared));
  std::vector<int> everyone(static_cast<std::size_t>(connected->size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  return {{std::make_shared<ChannelTransport>(connected, everyone, data_channel(0)),
           std::make_shared<ChannelTransport>(connected, everyone, agreement_channel(0))},
          std::make_shared<ChannelsForGroups>(connected),
          std::move(who)};
}

}  // namespace ronde::transport
