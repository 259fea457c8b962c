// The world of the interleaving test: ranks with the real Member, the real Coordinator, simulated words, memory and
// FIFOs, and the checks of what the protocol promises (docs/agreement.md, "What is checked"). What may move, and when,
// is in world_moves.h.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agreement/coordinator.h"
#include "agreement/member.h"
#include "agreement/testing/coverage.h"
#include "agreement/testing/histories.h"
#include "agreement/testing/layout.h"

namespace ronde::agreement::testing_world {

/// Which submission of a name a piece of data is: the n-th since the last join.
using Sequence = int;
inline constexpr Sequence kNothing = -1;
inline constexpr int kPerGeneration = 1000;

/// An inline bucket's line: flag and payload together.
struct Line {
  Flag flag = 0;
  std::vector<Sequence> payload;
};

/// The words of one writer, as one reader sees them.
struct Words {
  std::vector<Flag> pub;
  std::vector<Flag> done;
  std::vector<std::array<Line, 2>> lines;
  std::vector<std::array<std::vector<Sequence>, 2>> calls;  ///< unnamed ones, by parity
  std::uint32_t frozen = 0;
  std::optional<RankSet> quiet;
};

struct Update {
  enum class Kind : std::uint8_t { pub, done, frozen, quiet } kind = Kind::pub;
  std::uint32_t bucket = 0;
  Flag flag = 0;
  std::vector<Sequence> payload;
  RankSet quiet;
  std::vector<Sequence> calls = {};
};

struct Submission {
  Sequence current = kNothing;  ///< outstanding
  int made = 0;                 ///< in this generation
  std::map<Sequence, Code> results;
};

/// Memory of one rank for one bucket, two of each by the instance's parity.
struct Memory {
  Flag exposed = 0;  ///< published and not told its end: others may read and store
  std::array<std::vector<Sequence>, 2> input;
  std::array<Flag, 2> result{};
};

struct CopiedSubmit {
  SubmitPlace event;
  std::size_t name = 0;
  Variant variant = Variant::usual;
};

class WorldState;

class RankSink final : public Sink {
 public:
  RankSink(WorldState& world, std::size_t rank) : world_(world), rank_(rank) {}
  void publish(std::uint32_t bucket, Flag flag) override;
  void complete(std::uint32_t bucket, std::uint64_t instance) override;
  void voided(std::uint32_t bucket) override;
  void copy_in(std::uint32_t bucket, std::uint32_t place, std::uint64_t instance) override;
  void set_frozen(std::uint32_t epoch, Reason reason) override;
  void send_frozen(std::uint32_t epoch, Reason reason) override;
  void store_quiet(const RankSet& lost) override;
  Nanoseconds send_request(control::RequestMessage message, Nanoseconds deadline) override;
  void send_end(control::EndMessage message) override;
  void send_join() override;
  void send_leave() override;
  void settings(const control::SettingsEntry&) override {}
  void table(const Thresholds&) override {}
  void execute(std::vector<control::ExecEntry::Item> items) override;
  void launch(std::uint32_t bucket) override;
  void prepare(const Bucket& bucket) override;
  void install(std::uint32_t epoch, std::span<const std::uint32_t> buckets, bool added) override;
  void ended(std::uint32_t epoch) override;
  void retire(std::uint32_t bucket) override;
  void join_done(const control::JoinDoneEntry& entry) override;
  void fail(const std::string& name, Status status) override;
  void bug(std::string_view what) override;

 private:
  void note_free(const Bucket& bucket);

  WorldState& world_;
  std::size_t rank_;
};

/// What the log has launched in an ordered group, or would have: a collective of the negotiated path, or an instance.
struct Launch {
  bool is_bucket = false;
  std::size_t index = 0;  ///< of the execution, or the bucket
  Flag flag = 0;          ///< of the instance
  bool operator==(const Launch&) const = default;
};

struct Rank {
  Rank(WorldState& world, std::size_t index, Group group)
      : member(std::move(group), static_cast<int>(index)), sink(world, index) {}

  Member member;
  RankSink sink;
  bool alive = true;
  bool stopped = false;  ///< its program has had an error that ends it
  std::size_t pc = 0;
  std::size_t last_request = 0;
  std::optional<CopiedSubmit> copied;  ///< between the copy and the gate
  bool join_waits = false;
  int generation = 0;
  std::vector<Submission> submissions;  ///< by name
  std::vector<Words> view;              ///< by writer
  std::vector<std::deque<Update>> incoming;
  std::deque<control::Message> log;
  std::deque<control::Message> requests;
  std::vector<Memory> memory;                                 ///< by bucket
  std::deque<std::pair<std::uint32_t, Flag>> late_publishes;  ///< of a mutant
  std::size_t executions = 0;                                 ///< of the negotiated path, handed to this rank
  std::size_t first_open = 0;
  bool lane_stopped = false;
  std::set<std::uint32_t> refused;   ///< buckets
  std::vector<bool> planned;         ///< by name: has been in force
  std::vector<std::uint32_t> noted;  ///< by peer: its frozen word as last told to the member
  std::deque<Launch> to_launch;      ///< in an ordered group: in this order
  std::size_t launched = 0;
};

/// One collective of the negotiated path.
struct Execution {
  std::size_t name = 0;
  struct Part {
    int stage = 0;  ///< 1 published, 2 reduced, 3 complete
    Sequence sequence = kNothing;
  };
  std::vector<Part> parts;  ///< by rank
};

class WorldState {
 public:
  explicit WorldState(Scenario scenario) : scenario_(std::move(scenario)), dice_(scenario_.seed ^ 0x5eed) {
    Group group;
    group.ranks.resize(static_cast<std::size_t>(scenario_.ranks));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
    coordinator_.emplace(group, scenario_.settings, &rooms_);
    coordinator_->set_many(2);  // so that what is not used between breaks is retired in short histories too
    for (std::size_t i = 0; i < group.ranks.size(); ++i) {
      ranks_.push_back(std::make_unique<Rank>(*this, i, group));
      Rank& rank = *ranks_.back();
      rank.submissions.resize(scenario_.names.size());
      rank.planned.resize(scenario_.names.size());
      rank.view.resize(group.ranks.size());
      rank.incoming.resize(group.ranks.size());
      rank.noted.resize(group.ranks.size());
    }
  }

  /// What was promised and did not hold; empty if all is well.
  const std::string& violation() const { return violation_; }
  std::vector<std::string> trace;
  bool tracing = false;
  Coverage* coverage = nullptr;

  void violated(const std::string& what) {
    if (violation_.empty()) {
      violation_ = what;
      note("VIOLATION " + what);
    }
  }
  void note(const std::string& text) {
    if (tracing) {
      trace.push_back(text);
    }
  }
  void note(std::size_t rank, const std::string& text) {
    if (tracing) {
      trace.push_back("rank " + std::to_string(rank) + ": " + text);
    }
  }

 protected:
  friend class RankSink;

  Rank& rank(std::size_t index) { return *ranks_[index]; }
  std::size_t size() const { return ranks_.size(); }
  Memory& memory(std::size_t index, std::uint32_t bucket) {
    std::vector<Memory>& all = rank(index).memory;
    if (all.size() <= bucket) {
      all.resize(bucket + 1);
    }
    return all[bucket];
  }
  std::size_t name_index(const std::string& name) const { return std::stoul(name.substr(1)); }
  /// Of the request in this place.
  std::size_t request_in(std::size_t index, std::uint32_t id, std::size_t place) {
    return name_index(rank(index).member.request_in(id, static_cast<std::uint32_t>(place)));
  }
  const Bucket& bucket(std::size_t index, std::uint32_t id) { return rank(index).member.bucket(id); }
  void count(Row row, Mode mode) {
    if (coverage != nullptr) {
      coverage->count(row, mode);
    }
  }

  // ---- Words

  void write(std::size_t writer, Update update) {
    for (std::size_t reader = 0; reader < size(); ++reader) {
      if (scenario_.messages && reader != writer) {
        rank(reader).incoming[writer].push_back(update);
      } else {
        apply(rank(reader).view[writer], update);
      }
    }
  }
  static void apply(Words& words, const Update& update) {
    switch (update.kind) {
      case Update::Kind::pub:
      case Update::Kind::done: {
        if (words.pub.size() <= update.bucket) {
          words.pub.resize(update.bucket + 1);
          words.done.resize(update.bucket + 1);
          words.lines.resize(update.bucket + 1);
          words.calls.resize(update.bucket + 1);
        }
        if (update.kind == Update::Kind::pub) {
          words.calls[update.bucket][update.flag % 2] = update.calls;
        }
        (update.kind == Update::Kind::pub ? words.pub : words.done)[update.bucket] = update.flag;
        if (!update.payload.empty()) {
          const std::size_t parity = broken(Trap::one_inline_line) ? 0 : update.flag % 2;
          words.lines[update.bucket][parity] = {update.flag, update.payload};
        }
        break;
      }
      case Update::Kind::frozen: words.frozen = static_cast<std::uint32_t>(update.flag); break;
      case Update::Kind::quiet: words.quiet = update.quiet; break;
    }
  }
  Flag pub(std::size_t reader, std::size_t writer, std::uint32_t id) {
    const Words& words = rank(reader).view[writer];
    return id < words.pub.size() ? words.pub[id] : 0;
  }
  /// Whether the ranks have published different calls. Requires: all have published.
  bool is_void(std::size_t reader, std::uint32_t id, Flag flag) {
    if (!has_unnamed(bucket(reader, id)) || broken(Trap::calls_not_compared)) {
      return false;
    }
    const std::vector<Words>& view = rank(reader).view;
    return std::any_of(view.begin(), view.end(), [&](const Words& words) {
      return words.calls[id][flag % 2] != view[reader].calls[id][flag % 2];
    });
  }
  Flag done(std::size_t reader, std::size_t writer, std::uint32_t id) {
    const Words& words = rank(reader).view[writer];
    return id < words.done.size() ? words.done[id] : 0;
  }

  // ---- An ordered group

  bool is_ordered() const { return scenario_.settings.ordered; }
  /// Its turn has come, or there are no turns.
  bool is_next(std::size_t index, const Launch& launch) {
    const std::deque<Launch>& all = rank(index).to_launch;
    return !is_ordered() || (!all.empty() && all.front() == launch);
  }
  /// The rank launches this: the n-th on one rank must be the n-th on all (P6).
  void note_launch(std::size_t index, const Launch& launch) {
    if (!is_ordered()) {
      return;
    }
    Rank& own = rank(index);
    std::erase(own.to_launch, launch);
    if (launches_.size() == own.launched) {
      launches_.push_back(launch);
    }
    if (!(launches_[own.launched++] == launch)) {
      violated("P6: the ranks launch in different orders");
    }
  }

  // ---- What the sinks do

  void store_pub(std::size_t index, std::uint32_t id, Flag flag) {
    Memory& own = memory(index, id);
    if (pub(index, index, id) >= flag) {
      violated("a pub word does not grow");
    }
    own.exposed = flag;
    Update update{Update::Kind::pub, id, flag, {}, {}};
    if (!bucket(index, id).has_done_words) {
      update.payload = own.input[flag % 2];
    }
    for (std::size_t place = 0; place < bucket(index, id).members.size(); ++place) {
      if (bucket(index, id).members[place].is_unnamed()) {
        update.calls.push_back(static_cast<Sequence>(request_in(index, id, place)));
      }
    }
    if (is_ordered()) {
      rank(index).requests.emplace_back(
          control::FullMessage{rank(index).member.epoch(), id, flag & kMaxInstance, sum_of(update.calls)});
    }
    write(index, std::move(update));
  }
  /// Tells calls from others.
  static std::uint64_t sum_of(const std::vector<Sequence>& calls) {
    std::uint64_t sum = 0;
    for (const Sequence call : calls) {
      sum = sum * 1000003 + static_cast<std::uint64_t>(call) + 1;
    }
    return sum;
  }

  /// A slice of `index` begins or ends: it reads, and for direct buckets stores to, every rank's memory. Each must have
  /// exposed this very instance (P4), and all must hold the same submissions (P1).
  void touch_all(std::size_t index, std::uint32_t id, Flag flag) {
    const Bucket& agreed = bucket(index, id);
    if (!agreed.has_done_words) {
      return;
    }
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (!rank(peer).alive) {
        continue;  // the memory of the dead is never given back
      }
      if (memory(peer, id).exposed != flag) {
        violated("P4: rank " + std::to_string(index) + " touches memory of rank " + std::to_string(peer) +
                 " that is not published for this instance, or of which it has been told the end");
        return;
      }
      for (std::size_t place = 0; place < agreed.members.size(); ++place) {
        if (data(peer, agreed, place, flag) != data(index, agreed, place, flag)) {
          violated("P1: '" + agreed.members[place].name + "' is not the same submission on all ranks");
        }
      }
    }
  }
  /// Reduced where its tensors lie.
  static bool is_shared(const Bucket& agreed) { return !agreed.members.front().places.empty(); }
  Sequence data(std::size_t index, const Bucket& agreed, std::size_t place, Flag flag) {
    if (is_shared(agreed)) {
      return rank(index).submissions[request_in(index, agreed.id, place)].current;
    }
    const std::vector<Sequence>& slot = memory(index, agreed.id).input[flag % 2];
    return place < slot.size() ? slot[place] : kNothing;
  }

  /// What this rank reads of the others at the end of an instance: inline payloads, or result slots.
  void read_results(std::size_t index, std::uint32_t id, Flag flag) {
    const Bucket& agreed = bucket(index, id);
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (!agreed.has_done_words) {
        const std::size_t parity = broken(Trap::one_inline_line) ? 0 : flag % 2;
        const Words& words = rank(index).view[peer];
        const bool there = id < words.lines.size() && words.lines[id][parity].flag == flag;
        if (!there || words.lines[id][parity].payload != memory(index, id).input[flag % 2]) {
          violated("P1: an inline payload of rank " + std::to_string(peer) + " is not of this instance");
        }
      } else if (!is_shared(agreed) && memory(peer, id).result[flag % 2] != flag) {
        violated("P1: a result slot of rank " + std::to_string(peer) + " is not of this instance");
      }
    }
  }

  void finish(std::size_t index, std::size_t name, Code code) {
    Submission& submission = rank(index).submissions[name];
    if (submission.current == kNothing) {
      violated("P2: '" + scenario_.names[name].name + "' is completed twice, or was not submitted");
      return;
    }
    note(index, "'" + scenario_.names[name].name + "' number " + std::to_string(submission.current) +
                    " ends: " + std::string(code_name(code)));
    submission.results[submission.current] = code;
    submission.current = kNothing;
    if (code == Code::peer_lost) {
      rank(index).stopped = true;
    } else if (code == Code::peer_left) {  // nothing succeeds any more: on to its own leave
      rank(index).pc = std::max(rank(index).pc, scenario_.programs[index].size() - 1);
    }
  }

  Scenario scenario_;
  Dice dice_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  RoomsForTests rooms_;
  std::optional<Coordinator> coordinator_;
  bool coordinator_has_news_ = true;
  std::vector<Execution> executions_;
  std::vector<Launch> launches_;                ///< in an ordered group: by whichever rank was the first
  std::set<std::string> layouts_;               ///< of buckets that some rank may use
  std::map<std::uint32_t, Bucket> known_;       ///< buckets as the first rank saw them
  std::map<std::uint32_t, std::size_t> freed_;  ///< by bucket how many ranks have freed it
  std::string violation_;
};

}  // namespace ronde::agreement::testing_world
