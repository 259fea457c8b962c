#include "plan/simulation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <queue>
#include <unordered_map>

#include "plan/schedules.h"

namespace ronde::plan {

namespace {

using collectives::Outgoing;
using collectives::Schedule;
using collectives::Stage;
using collectives::Work;

/// Messages of one stage that go from one simulated rank to one simulated rank, together.
struct Batch {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t bucket = 0;
  std::uint32_t stage = 0;
  std::uint32_t sent = 0;  ///< messages
  std::uint32_t received = 0;
  double bytes_sent = 0;
  double bytes_received = 0;
  bool stays_in_host = false;
};

enum class Happening { ready, free, sent, arrives, is_there };

struct Event {
  double at = 0;
  std::uint64_t order = 0;  ///< of what happens at the same time
  Happening what = Happening::free;
  Batch batch = {};  ///< of `ready` and `free` only `to`, and of the former the bucket
  bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
};

/// One bucket on one rank.
struct Run {
  std::unique_ptr<Schedule> schedule;
  std::size_t stages = 0;
  std::size_t sending = 0;
  std::size_t finished = 0;
  std::size_t next = 0;                                       ///< of outgoing.outgoing
  std::size_t taken = 0;                                      ///< messages of incoming
  double link_factor = 1;                                     ///< of what links take
  Stage outgoing;                                             ///< of `sending`
  Stage incoming;                                             ///< of `finished`
  std::unordered_map<std::uint32_t, std::deque<Batch>> come;  ///< by stage, not taken in yet

  // Folded, of `sending`: messages to other hosts, how many of them have gone, and what comes from other hosts.
  std::size_t to_others = 0;
  std::size_t gone = 0;
  std::size_t from_others = 0;
  double bytes_from_others = 0;
};

struct Rank {
  std::vector<Run> runs;                 ///< by bucket
  std::vector<std::uint32_t> under_way;  ///< buckets, the oldest first
  bool is_busy = false;
};

/// When the two directions of a host's link have carried what waits for them.
struct Link {
  double out_ns = 0;
  double in_ns = 0;
};

class Simulation {
 public:
  Simulation(const Cluster& cluster, const Fabric& fabric, const std::vector<StepBucket>& buckets, bool is_folded)
      : cluster_(cluster),
        fabric_(fabric),
        is_folded_(is_folded),
        ranks_(static_cast<std::size_t>(is_folded ? cluster.ranks_per_host : cluster.ranks())),
        links_(static_cast<std::size_t>(is_folded ? 1 : cluster.hosts)),
        done_ns_(buckets.size()),
        unfinished_(ranks_.size() * buckets.size()) {
    const collectives::RankLayout layout = layout_of(cluster);
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::uint32_t bucket = 0; bucket < buckets.size(); ++bucket) {
        Run& run = ranks_[rank].runs.emplace_back();
        run.schedule = schedule_of(static_cast<int>(rank), cluster, layout, buckets[bucket].bytes);
        run.stages = run.schedule->stages();
        run.link_factor = sharing_factor(buckets[bucket].bytes);
        describe_outgoing(rank, run);
        describe(run, run.finished, run.incoming);
        push(buckets[bucket].ready_ns, Happening::ready, {.to = rank, .bucket = bucket});
      }
    }
  }

  std::vector<double> run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    if (unfinished_ > 0) {  // a bug, which must not look like a short time
      done_ns_.assign(done_ns_.size(), std::numeric_limits<double>::infinity());
    }
    return std::move(done_ns_);
  }

 private:
  static void describe(const Run& run, std::size_t index, Stage& stage) {
    stage.clear();
    if (index < run.stages) {
      run.schedule->describe(index, stage);
    }
  }

  void describe_outgoing(std::uint32_t rank, Run& run) const {
    describe(run, run.sending, run.outgoing);
    run.next = run.to_others = run.gone = run.from_others = 0;
    run.bytes_from_others = 0;
    for (const Outgoing& each : run.outgoing.outgoing) {
      run.to_others += is_of_host(each.to, host_of(rank)) ? 0 : 1;
    }
    for (const collectives::Incoming& each : run.outgoing.incoming) {
      if (!is_of_host(each.from, host_of(rank))) {
        run.from_others += 1;
        run.bytes_from_others += static_cast<double>(each.bytes());
      }
    }
  }

  bool is_of_host(int rank, std::uint32_t host) const {
    return static_cast<std::uint32_t>(rank / cluster_.ranks_per_host) == host;
  }

  void push(double at, Happening what, const Batch& batch) { events_.push({at, pushed_++, what, batch}); }

  std::uint32_t host_of(std::uint32_t rank) const { return rank / static_cast<std::uint32_t>(cluster_.ranks_per_host); }

  void handle(const Event& event) {
    const Batch& batch = event.batch;
    switch (event.what) {
      case Happening::ready:
        ranks_[batch.to].under_way.push_back(batch.bucket);
        go_on(batch.to, event.at);
        break;
      case Happening::free:
        ranks_[batch.to].is_busy = false;
        go_on(batch.to, event.at);
        break;
      case Happening::sent:
        ranks_[batch.from].is_busy = false;
        put_on_its_way(batch, event.at);
        go_on(batch.from, event.at);
        break;
      case Happening::arrives: {
        double& in_ns = links_[host_of(batch.to)].in_ns;
        in_ns = std::max(in_ns, event.at) + link_ns(batch, batch.received, batch.bytes_received);
        push(in_ns, Happening::is_there, batch);
        break;
      }
      case Happening::is_there:
        ranks_[batch.to].runs[batch.bucket].come[batch.stage].push_back(batch);
        go_on(batch.to, event.at);
        break;
    }
  }

  /// By how much sharing makes a host's link slower while it carries a bucket.
  double sharing_factor(std::size_t bytes) const {
    const double rails = bytes > cluster_.limits.one_turn ? cluster_.ranks_per_host : 1;
    const double connections = (cluster_.hosts - 1) * rails;
    const double each = static_cast<double>(bytes) / (cluster_.hosts * rails);
    return each > fabric_.window_kib * 1024 ? 1 + fabric_.sharing_loss * std::log2(connections) : 1;
  }

  double link_ns(const Batch& batch, double messages, double bytes) const {
    const double factor = ranks_[batch.from].runs[batch.bucket].link_factor;
    return std::max(messages * fabric_.gap_us * 1e3, bytes * 8 / fabric_.link_gbit * factor);
  }
  double processor_ns(bool stays_in_host, double messages, double bytes) const {
    return stays_in_host ? messages * fabric_.memory_us * 1e3 + bytes * fabric_.memory_ns_per_byte
                         : messages * fabric_.overhead_us * 1e3 + bytes * fabric_.cpu_ns_per_byte;
  }

  void put_on_its_way(const Batch& batch, double now) {
    if (batch.stays_in_host) {
      push(now, Happening::is_there, batch);
      return;
    }
    double& out_ns = links_[host_of(batch.from)].out_ns;
    const double begin = std::max(out_ns, now);
    out_ns = begin + link_ns(batch, batch.sent, batch.bytes_sent);
    if (batch.received > 0) {
      push(begin + fabric_.latency_us * 1e3, Happening::arrives, batch);
    }
    if (batch.received < batch.sent && is_folded_) {
      note_others(batch, out_ns);
    }
  }

  /// Folded: hosts that have no part of a small tensor get what this one, which has, need not: they are done once they
  /// have taken it in and told their other ranks.
  void note_others(const Batch& batch, double sent_ns) {
    const double bytes = batch.bytes_sent / batch.sent;
    const double in_host_ns = cluster_.ranks_per_host > 1 ? 2 * processor_ns(true, 1, bytes) : 0;
    const double done_ns = sent_ns + fabric_.latency_us * 1e3 + processor_ns(false, 1, bytes) + in_host_ns;
    done_ns_[batch.bucket] = std::max(done_ns_[batch.bucket], done_ns);
  }

  /// The rank's thread does the next piece of work that there is.
  void go_on(std::uint32_t index, double now) {
    Rank& rank = ranks_[index];
    for (std::size_t i = 0; i < rank.under_way.size() && !rank.is_busy;) {
      const std::uint32_t bucket = rank.under_way[i];
      const bool is_over = advance(index, bucket, now);
      if (is_over) {
        done_ns_[bucket] = std::max(done_ns_[bucket], now);
        --unfinished_;
        rank.under_way.erase(rank.under_way.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  /// Begins a piece of work if there is one in this bucket. True: none will be.
  bool advance(std::uint32_t index, std::uint32_t bucket, double now) {
    Rank& rank = ranks_[index];
    Run& run = rank.runs[bucket];
    while (!rank.is_busy && (run.sending < run.stages || run.finished < run.stages)) {
      if (run.sending < run.stages && run.outgoing.after <= run.finished) {
        if (run.next < run.outgoing.outgoing.size()) {
          send(index, bucket, run, now);
        } else {
          ++run.sending;
          describe_outgoing(index, run);
        }
        continue;
      }
      if (run.finished == run.stages || !(take(index, run, now) || finish_stage(index, run, now))) {
        break;
      }
    }
    return run.sending == run.stages && run.finished == run.stages && !rank.is_busy;
  }

  void keep_busy(std::uint32_t index, double until) {
    ranks_[index].is_busy = true;
    push(until, Happening::free, {.to = index});
  }

  void send(std::uint32_t index, std::uint32_t bucket, Run& run, double now) {
    const std::vector<Outgoing>& all = run.outgoing.outgoing;
    const std::size_t most = is_folded_ ? std::max<std::size_t>(1, all.size() / kBatches) : 1;
    Batch batch{.from = index, .bucket = bucket, .stage = static_cast<std::uint32_t>(run.sending)};
    batch.stays_in_host = is_of_host(all[run.next].to, host_of(index));
    for (; run.next < all.size() && batch.sent < (batch.stays_in_host ? 1 : most); ++run.next) {
      const Outgoing& each = all[run.next];
      if (is_of_host(each.to, host_of(index)) != batch.stays_in_host) {
        break;
      }
      batch.to = static_cast<std::uint32_t>(each.to);
      batch.sent += 1;
      batch.bytes_sent += static_cast<double>(each.bytes());
    }
    batch.received = batch.sent;
    batch.bytes_received = batch.bytes_sent;
    if (is_folded_ && !batch.stays_in_host) {
      fold(run, batch);
    }
    ranks_[index].is_busy = true;
    push(now + processor_ns(batch.stays_in_host, batch.sent, batch.bytes_sent), Happening::sent, batch);
  }

  /// What this rank gets from other hosts in a stage comes in the rhythm in which it sends to them: they do the same.
  /// Where a tensor is so small that not all hosts have a part of it, there are more or fewer of the one than of the
  /// other.
  static void fold(Run& run, Batch& batch) {
    const std::size_t before = run.from_others * run.gone / run.to_others;
    run.gone += batch.sent;
    batch.to = batch.from;
    batch.received = static_cast<std::uint32_t>(run.from_others * run.gone / run.to_others - before);
    batch.bytes_received =
        batch.received == 0 ? 0 : run.bytes_from_others * batch.received / static_cast<double>(run.from_others);
  }

  /// Takes in messages of the stage that have come. False: none has.
  bool take(std::uint32_t index, Run& run, double now) {
    const auto found = run.come.find(static_cast<std::uint32_t>(run.finished));
    if (found == run.come.end() || found->second.empty()) {
      return false;
    }
    const Batch batch = found->second.front();
    found->second.pop_front();
    run.taken += batch.received;
    keep_busy(index, now + processor_ns(batch.stays_in_host, batch.received, batch.bytes_received));
    return true;
  }

  /// Does the stage's work if all has come and gone. False: not yet.
  bool finish_stage(std::uint32_t index, Run& run, double now) {
    if (run.taken < run.incoming.incoming.size() || run.sending <= run.finished) {
      return false;
    }
    const double work_ns = work_of(*run.schedule, run.incoming) * fabric_.reduce_ns_per_byte;
    run.come.erase(static_cast<std::uint32_t>(run.finished));
    ++run.finished;
    run.taken = 0;
    describe(run, run.finished, run.incoming);
    if (work_ns > 0) {
      keep_busy(index, now + work_ns);
    }
    return true;
  }

  const Cluster cluster_;
  const Fabric fabric_;
  const bool is_folded_;
  std::vector<Rank> ranks_;
  std::vector<Link> links_;
  std::vector<double> done_ns_;
  std::size_t unfinished_;  ///< buckets, on each rank
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t pushed_ = 0;
};

}  // namespace

std::vector<double> simulate(const Cluster& cluster, const Fabric& fabric, const std::vector<StepBucket>& buckets,
                             Extent extent) {
  assert(cluster.hosts > 1 && (extent != Extent::folded || cluster.hosts > 2));
  const bool is_folded = extent == Extent::folded || (extent == Extent::chosen && cluster.hosts > kWholeHosts);
  return Simulation(cluster, fabric, buckets, is_folded).run();
}

}  // namespace ronde::plan
