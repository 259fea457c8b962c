// The gate against the freeze, with threads and real words: per rank one thread that submits and one that is the
// engine. ThreadSanitizer sees whether every store to and read of another rank's memory is ordered by the words alone.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "agreement/coordinator.h"
#include "agreement/member.h"
#include "agreement/testing/layout.h"
#include "support/effort.h"

namespace ronde::agreement {
namespace {

constexpr std::size_t kRanks = 2;
constexpr int kInstances = effort(10000);
constexpr int kBreakEvery = 50;

/// What one rank writes and all read. Bucket 0 is the only one.
struct alignas(kBucketLineBytes) Lines {
  std::atomic<Flag> pub{0};
  std::atomic<Flag> done{0};
  std::atomic<std::uint64_t> negotiated_pub{0};
  std::atomic<std::uint64_t> negotiated_done{0};
  alignas(kBucketLineBytes) std::atomic<std::uint32_t> frozen{0};
};

struct Shared {
  std::array<Lines, kRanks> lines;
  std::array<std::array<std::int64_t, kRanks>, kRanks> tensors{};  ///< plain memory: rank r reduces element r of all
  std::mutex coordinator_lock;
  RoomsForTests rooms;
  Coordinator coordinator{Group{0, {0, 1}}, {0, 0, {}}, &rooms};
  std::array<std::mutex, kRanks> log_locks;
  std::array<std::deque<control::Message>, kRanks> logs;
  std::atomic<int> finished{0};
  std::atomic<bool> failed{false};
};

class RankOfThreads final : public Sink {
 public:
  RankOfThreads(Shared& shared, std::size_t rank)
      : shared_(shared), rank_(rank), member_(Group{0, {0, 1}}, static_cast<int>(rank)) {}

  void submit_all() {
    for (int n = 1; n <= kInstances && !shared_.failed; ++n) {
      auto& own = shared_.tensors[rank_];
      own = {n + static_cast<int>(rank_), 2 * n + static_cast<int>(rank_)};
      {
        std::lock_guard gate(gate_);
        if (const auto where = member_.where("t")) {
          member_.step(SubmitPlace{where->bucket, where->place, member_.next_flag(where->bucket), kNever, 64}, *this);
        } else {
          member_.step(Submit{"t", descriptor(), kNever}, *this);
        }
        if (n % kBreakEvery == static_cast<int>(rank_) * kBreakEvery / 2) {
          member_.step(LocalReason{}, *this);
        }
      }
      while (completed_.load(std::memory_order_acquire) != n && !shared_.failed) {
        std::this_thread::yield();
      }
      if (own[0] != 2 * n + 1 || own[1] != 4 * n + 1) {
        shared_.failed = true;
      }
    }
    ++shared_.finished;
  }

  void drive() {
    while (shared_.finished < static_cast<int>(kRanks) && !shared_.failed) {
      talk();
      learn();
      replay();
      std::this_thread::yield();
    }
  }
  std::uint64_t replayed() const { return replayed_; }
  std::uint64_t breaks() const { return breaks_; }

  void publish(std::uint32_t, Flag flag) override { lines().pub.store(flag, std::memory_order_release); }
  void complete(std::uint32_t, std::uint64_t) override {
    ++replayed_;
    completed_.fetch_add(1, std::memory_order_release);
  }
  void voided(std::uint32_t) override {}
  void copy_in(std::uint32_t, std::uint32_t, std::uint64_t) override {}
  void set_frozen(std::uint32_t epoch, Reason) override {
    ++breaks_;
    lines().frozen.store(epoch, std::memory_order_release);
  }
  void send_frozen(std::uint32_t, Reason) override { bug("the group is not ordered"); }
  void store_quiet(const RankSet&) override { bug("nobody died"); }
  Nanoseconds send_request(control::RequestMessage message, Nanoseconds deadline) override {
    outbox_.emplace_back(std::move(message));
    return deadline;
  }
  void send_end(control::EndMessage message) override { outbox_.emplace_back(std::move(message)); }
  void send_join() override { bug("nobody joins"); }
  void send_leave() override { bug("nobody leaves"); }
  void settings(const control::SettingsEntry&) override {}
  void table(const Thresholds&) override {}
  void execute(std::vector<control::ExecEntry::Item> items) override { to_negotiate_ += items.size(); }
  void launch(std::uint32_t) override { bug("the group is not ordered"); }
  void prepare(const Bucket& bucket) override { outbox_.emplace_back(control::PreparedMessage{bucket.id, false}); }
  void install(std::uint32_t, std::span<const std::uint32_t>, bool) override {}
  void ended(std::uint32_t) override {}
  void retire(std::uint32_t) override { bug("nothing is retired"); }
  void join_done(const control::JoinDoneEntry&) override { bug("nobody joins"); }
  void fail(const std::string&, Status) override { bug("no request fails"); }
  void bug(std::string_view what) override {
    ADD_FAILURE() << what;
    shared_.failed = true;
  }

 private:
  static Descriptor descriptor() {
    Descriptor made;
    made.tensors = {{DType::int64, {2}}};
    made.memory_place = 64;
    return made;
  }
  Lines& lines() { return shared_.lines[rank_]; }
  template <typename Word, typename Wanted>
  bool everyone(Word word, Wanted wanted) {
    for (Lines& peer : shared_.lines) {
      if (!wanted((peer.*word).load(std::memory_order_acquire))) {
        return false;
      }
    }
    return true;
  }
  void reduce_slice() {
    std::int64_t sum = 0;
    for (const auto& tensor : shared_.tensors) {
      sum += tensor[rank_];
    }
    for (auto& tensor : shared_.tensors) {
      tensor[rank_] = sum;
    }
  }

  /// Sends what the member wants said; takes what the coordinator has answered.
  void talk() {
    std::vector<control::Message> to_send;
    {
      std::lock_guard gate(gate_);
      to_send.swap(outbox_);
    }
    {
      std::lock_guard lock(shared_.coordinator_lock);
      for (control::Message& message : to_send) {
        tell_coordinator(std::move(message));
      }
      for (const control::Message& entry : shared_.coordinator.take_log()) {
        for (std::size_t peer = 0; peer < kRanks; ++peer) {
          std::lock_guard log(shared_.log_locks[peer]);
          shared_.logs[peer].push_back(entry);
        }
      }
    }
    std::deque<control::Message> entries;
    {
      std::lock_guard log(shared_.log_locks[rank_]);
      entries.swap(shared_.logs[rank_]);
    }
    std::lock_guard gate(gate_);
    for (control::Message& entry : entries) {
      member_.step(LogRead{std::move(entry)}, *this);
    }
  }
  void tell_coordinator(control::Message message) {
    Status status;
    const int own = static_cast<int>(rank_);
    if (auto* request = std::get_if<control::RequestMessage>(&message)) {
      status = shared_.coordinator.on_request(own, std::move(*request), 0);
    } else if (const auto* end = std::get_if<control::EndMessage>(&message)) {
      status = shared_.coordinator.on_end(own, *end);
    } else if (const auto* prepared = std::get_if<control::PreparedMessage>(&message)) {
      status = shared_.coordinator.on_prepared(own, *prepared);
    }
    if (!status) {
      bug(status.message());
    }
  }

  void learn() {
    std::lock_guard gate(gate_);
    const auto reached_it = [this](std::uint64_t word) { return word >= negotiated_; };
    if (negotiated_stage_ == 0 && negotiated_ < to_negotiate_) {
      ++negotiated_;
      lines().negotiated_pub.store(negotiated_, std::memory_order_release);
      negotiated_stage_ = 1;
    }
    if (negotiated_stage_ == 1 && everyone(&Lines::negotiated_pub, reached_it)) {
      reduce_slice();
      lines().negotiated_done.store(negotiated_, std::memory_order_release);
      negotiated_stage_ = 2;
    }
    if (negotiated_stage_ == 2 && everyone(&Lines::negotiated_done, reached_it)) {
      negotiated_stage_ = 0;
      const std::string name = "t";
      member_.step(Executed{name}, *this);
      completed_.fetch_add(1, std::memory_order_release);
    }
  }

  void replay() {
    bool slice = false;
    {
      std::lock_guard gate(gate_);
      const std::uint32_t epoch = member_.epoch();
      if (member_.mode() == Mode::replay) {
        for (Lines& peer : shared_.lines) {
          if (peer.frozen.load(std::memory_order_acquire) == epoch) {
            member_.step(PeerFrozen{epoch}, *this);
            break;
          }
        }
      }
      if (member_.mode() == Mode::frozen && everyone(&Lines::frozen, [&](std::uint32_t at) { return at == epoch; })) {
        std::uint64_t smallest = kMaxInstance;
        for (Lines& peer : shared_.lines) {
          smallest = std::min(smallest, instance_in(peer.pub.load(std::memory_order_acquire), epoch));
        }
        member_.step(AllFrozen{std::span(&smallest, 1)}, *this);
      }
      if (member_.in_force().empty() || !member_.is_published(0)) {
        return;
      }
      const Flag flag = member_.next_flag(0);
      const auto reached_it = [flag](Flag word) { return reached(word, flag); };
      if (member_.stage(0) == Stage::none && everyone(&Lines::pub, reached_it)) {
        slice = member_.step(AllPublished{0}, *this);
      } else if (member_.stage(0) == Stage::reduced && everyone(&Lines::done, reached_it)) {
        member_.step(AllDone{0}, *this);
      }
    }
    if (slice) {
      reduce_slice();  // outside the gate: a submitter may freeze meanwhile
      std::lock_guard gate(gate_);
      lines().done.store(member_.next_flag(0), std::memory_order_release);
      member_.step(Reduced{0}, *this);
    }
  }

  Shared& shared_;
  std::size_t rank_;
  std::mutex gate_;
  Member member_;  ///< guarded by gate_, as all below
  std::vector<control::Message> outbox_;
  std::uint64_t to_negotiate_ = 0;
  std::uint64_t negotiated_ = 0;
  int negotiated_stage_ = 0;
  std::atomic<int> completed_{0};
  std::uint64_t replayed_ = 0;
  std::uint64_t breaks_ = 0;
};

TEST(Gate, NothingIsPublishedPastAFreezeAndEveryValueIsRight) {
  Shared shared;
  std::array<RankOfThreads, kRanks> ranks{RankOfThreads{shared, 0}, RankOfThreads{shared, 1}};
  std::vector<std::thread> threads;
  for (RankOfThreads& rank : ranks) {
    threads.emplace_back([&rank] { rank.submit_all(); });
    threads.emplace_back([&rank] { rank.drive(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_FALSE(shared.failed);
  for (const RankOfThreads& rank : ranks) {
    EXPECT_GT(rank.replayed(), 0u);
    EXPECT_GT(rank.breaks(), 10u);
    EXPECT_LT(rank.replayed(), static_cast<std::uint64_t>(kInstances));
  }
}

}  // namespace
}  // namespace ronde::agreement
