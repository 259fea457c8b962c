// The ranks of a history: real engines (agreement, replay, plans, the backend of messages, peers by notes) over
// simulated pipes, each with a clock of its own, and the checks of what a program is promised.
#pragma once

#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/engine.h"
#include "engine/histories/testing/coverage.h"
#include "engine/histories/testing/simulated_net.h"
#include "engine/histories/testing/submissions.h"
#include "engine/histories/testing/watched_backend.h"
#include "engine/requests/call_order.h"
#include "engine/testing/world.h"
#include "transport/messages/message_peers.h"

namespace ronde::engine::histories {

/// How far a rank's process is.
enum class Life : std::uint8_t {
  runs,    ///< its program
  leaves,  ///< has begun to leave the job
  exits,   ///< its engine is out of it; what it has sent is still going out
  gone,
  dead,
};

struct Slot {
  TicketPtr ticket;
  std::shared_ptr<Buffers> buffers;
};

struct Rank {
  FakeClock clock;
  WatchedBackend* backend = nullptr;  ///< the engine's
  std::unique_ptr<Engine> engine;
  Life life = Life::runs;
  bool has_news = true;     ///< somebody must step
  bool is_stopped = false;  ///< its program has had an error that ends the group
  bool is_told_of_death = false;
  bool waits = false;          ///< at the operation that is next
  std::size_t next = 0;        ///< operation of its program
  std::size_t generation = 0;  ///< joins that are over
  TicketPtr join;
  std::vector<Submission*> last;  ///< by name
  std::vector<std::size_t> made;  ///< by name, in this generation
  std::vector<Slot> slots;        ///< by name
  std::vector<Submission*> outstanding;
};

class WorldState {
 public:
  /// What was promised and did not hold; empty if all is well.
  const std::string& violation() const { return violation_; }
  bool tracing = false;
  std::vector<std::string> trace;
  Coverage* coverage = nullptr;

 protected:
  WorldState(History history, Fault fault, int spared)
      : history_(std::move(history)),
        dice_(history_.scenario.seed ^ 0xd1ce),
        fault_(fault),
        fault_in_links_(fault, spared),
        refusals_(history_.scenario.refusals),
        net_(history_.scenario.ranks, history_.room,
             [this](int rank) { ranks_[static_cast<std::size_t>(rank)]->has_news = true; }),
        meetings_(history_.scenario.names.size()) {
    net_.set_fault(&fault_in_links_);
    net_.on_sent([this](const Sent& sent) {
      if (coverage != nullptr) {
        coverage->count_sent(sent.channel, sent.bytes);
      }
    });
    for (int rank = 0; rank < history_.scenario.ranks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>());
      make_engine(rank);
    }
  }
  ~WorldState() = default;

  // ---- Who is who

  std::size_t size() const { return ranks_.size(); }
  Rank& rank(std::size_t index) { return *ranks_[index]; }
  const Scenario& scenario() const { return history_.scenario; }
  static bool is_there(const Rank& rank) { return rank.life != Life::dead && rank.life != Life::gone; }

  void violated(const std::string& what) {
    if (violation_.empty()) {
      violation_ = what;
      if (tracing) {
        trace.push_back("VIOLATION " + what);
      }
    }
  }
  template <typename Text>
  void note(std::size_t rank, const Text& text) {
    if (tracing) {
      trace.push_back("rank " + std::to_string(rank) + ": " + text());
    }
  }
  void count(Seen what, std::uint64_t times = 1) {
    if (coverage != nullptr) {
      coverage->count(what, times);
    }
  }
  std::string text_of(const Submission& submission) const {
    return "'" + scenario().names[submission.name].name + "' number " + std::to_string(submission.sequence);
  }

  // ---- Submitting

  Meeting& meeting(std::size_t name, std::size_t sequence) {
    std::vector<Meeting>& all = meetings_[name];
    if (all.size() <= sequence) {
      all.resize(sequence + 1);
    }
    return all[sequence];
  }

  /// An unnamed call that the rank cannot make, and of which it tells the others.
  void refuse_call(std::size_t index, std::size_t name) {
    Rank& own = rank(index);
    Meeting::Part& part = meeting(name, 0).parts[index];
    part.is_done = true;
    part.code = Code::invalid_argument;
    note(index, [&] { return "cannot make '" + scenario().names[name].name + "'"; });
    own.engine->refuse_call(own.engine->take_call_number(), "refused by lot");
    own.has_news = true;
  }

  void submit(std::size_t index, std::size_t name, Variant variant) {
    Rank& own = rank(index);
    submissions_.push_back(std::make_unique<Submission>());
    Submission& made = *submissions_.back();
    made.name = name;
    made.sequence = history_.is_unnamed ? 0 : own.generation * kPerGeneration + own.made[name]++;
    made.elements = scenario().names[name].elements + (variant == Variant::other_shape ? 1 : 0);
    const Work& work = history_.works[name];
    Slot& slot = own.slots[name];
    const bool uses_slot = work.is_slot && variant != Variant::other_shape;
    if (uses_slot && slot.ticket) {
      made.ticket = slot.ticket;
      made.buffers = slot.buffers;
      check_given_back(*made.buffers, index, made);
      made.buffers->is_given_back = false;
    } else {
      made.buffers = std::make_shared<Buffers>();
    }
    fill(index, made);
    if (!made.ticket) {
      make_ticket(index, made, uses_slot);
    }
    Meeting::Part& part = meeting(name, made.sequence).parts[index];
    part.is_submitted = true;
    part.elements = made.elements;
    note(index, [&] { return "submits " + text_of(made) + (variant == Variant::other_shape ? ", differently" : ""); });
    own.last[name] = &made;
    const Status status =
        made.ticket->keeps_name() ? own.engine->submit_again(made.ticket) : own.engine->submit(made.ticket);
    own.has_news = true;
    if (status) {
      own.outstanding.push_back(&made);
      if (uses_slot) {
        slot = {made.ticket, made.buffers};
      }
    } else {
      refused(index, made, status);
    }
  }

  void submit_join(std::size_t index) {
    Request request;
    request.kind = OpKind::join;
    request.name = "join";
    Rank& own = rank(index);
    own.join = std::make_shared<Ticket>(std::move(request));
    note(index, [] { return std::string("joins"); });
    own.has_news = true;
    if (const Status status = own.engine->submit(own.join); !status) {
      own.join.reset();
      stop_for(index, status, "join");
    }
  }

  // ---- Ends

  /// Looks which of the rank's requests are over.
  void collect(std::size_t index) {
    Rank& own = rank(index);
    for (std::size_t i = 0; i < own.outstanding.size();) {
      Submission& each = *own.outstanding[i];
      if (each.ticket->is_done()) {
        own.outstanding.erase(own.outstanding.begin() + static_cast<std::ptrdiff_t>(i));
        finish(index, each);
      } else {
        ++i;
      }
    }
    if (own.join && own.join->is_done()) {
      finish_join(index);
    }
  }

  void check_given_back(const Buffers& buffers, std::size_t index, const Submission& submission) {
    if (buffers.is_given_back && !(is_all(buffers.input, kCallers) && is_all(buffers.output, kCallers))) {
      violated("rank " + std::to_string(index) + ": memory of " + text_of(submission) +
               " was written after its end had been told");
    }
  }

  void check_the_end() {
    for (std::size_t index = 0; index < size(); ++index) {
      const Rank& own = rank(index);
      if (own.life != Life::dead && (!own.outstanding.empty() || own.join)) {
        violated("rank " + std::to_string(index) + ": a request has had no answer");
      }
    }
    for (std::size_t name = 0; name < meetings_.size(); ++name) {
      for (std::size_t sequence = 0; sequence < meetings_[name].size() && !any_killed_; ++sequence) {
        check_alike(meetings_[name][sequence], name, sequence);
      }
    }
    for (std::size_t i = 0; i < submissions_.size(); ++i) {
      const Submission& each = *submissions_[i];
      check_given_back(*each.buffers, owner_of(each), each);
      const bool was_told = each.is_done && each.ticket->on_done() && !each.ticket->keeps_name();
      if (was_told && each.callbacks != 1) {
        violated("the callback of " + text_of(each) + " was called " + std::to_string(each.callbacks) + " times");
      }
    }
  }

  void stop_for(std::size_t index, const Status& status, const std::string& what) {
    check_code(index, status, what);
    rank(index).is_stopped = true;
  }

  History history_;
  Dice dice_;
  const Fault fault_;
  FaultInLinks fault_in_links_;
  int refusals_;
  bool any_killed_ = false;
  bool any_cancelled_ = false;
  SimulatedNet net_;
  std::vector<std::unique_ptr<Submission>> submissions_;
  std::vector<std::unique_ptr<Rank>> ranks_;  ///< whose engines the two before outlive

 private:
  void make_engine(int index) {
    Rank& own = rank(static_cast<std::size_t>(index));
    const std::size_t names = scenario().names.size();
    own.last.resize(names);
    own.made.resize(names);
    own.slots.resize(names);
    std::vector<transport::PeerInfo> who(static_cast<std::size_t>(scenario().ranks), {"simulated", ::getpid()});
    Connections connections = linked_connections(
        index, std::move(who), net_.links(index), [&own] { own.has_news = true; }, history_.first_of,
        history_.table != nullptr ? collectives::HostTable::parse(history_.table).value()
                                  : collectives::HostTable::built_in());
    auto backend =
        std::make_unique<WatchedBackend>(std::move(connections.backend), index, history_.thresholds, refusals_, fault_);
    own.backend = backend.get();
    connections.backend = std::move(backend);
    if (fault_ == Fault::not_announced) {
      static_cast<transport::MessagePeers&>(*connections.peers).before_frozen({});
    }
    Settings settings;
    settings.fusion_threshold = scenario().settings.fusion_threshold;
    settings.fusion_small = scenario().settings.fusion_small;
    settings.quiet_timeout = kQuietLimit;
    Topology topology;
    topology.rank = topology.local_rank = index;
    topology.size = topology.local_size = scenario().ranks;
    own.engine = std::make_unique<Engine>(topology, std::move(connections), settings, own.clock);
    own.engine->set_hooks(
        [] {}, [this](const TicketPtr& ticket, const Status&, const std::shared_ptr<void>&) { called_back(*ticket); });
  }

  void fill(std::size_t index, Submission& made) const {
    const Work& work = history_.works[made.name];
    if (work.kind == OpKind::barrier) {
      return;
    }
    // In place: slots keep their memory where it is.
    const std::vector<std::byte> values = values_of(index, made.name, made.sequence, work.dtype, made.elements);
    made.buffers->input.resize(values.size());
    std::copy(values.begin(), values.end(), made.buffers->input.begin());
    if (!work.in_place && work.kind != OpKind::allgather) {
      made.buffers->output.assign(values.size(), kCallers);
    }
  }

  void make_ticket(std::size_t index, Submission& made, bool uses_slot) {
    const Work& work = history_.works[made.name];
    const NameSpec& spec = scenario().names[made.name];
    Request request;
    request.kind = work.kind;
    request.reduce_op = work.op;
    request.root = work.kind == OpKind::broadcast ? work.root : 0;
    request.name = spec.name;
    request.timeout = history_.limit;
    request.planned_group = spec.group;
    if (history_.is_unnamed) {
      request.call_number = rank(index).engine->take_call_number();
      request.has_own_number = true;
      request.name = CallOrder::name_of(request.call_number);
    }
    if (work.kind != OpKind::barrier) {
      Tensor input;
      input.data = made.buffers->input.data();
      input.dtype = work.dtype;
      input.shape = {made.elements};
      Tensor output = input;
      if (!made.buffers->output.empty()) {
        output.data = made.buffers->output.data();
      } else if (work.kind == OpKind::allgather) {
        output = {};
      }
      request.tensors.push_back({input, output});
    }
    DoneCallback on_done;
    if (work.has_callback) {
      on_done = [](const TicketPtr&, const Status&) {};
    }
    made.ticket = std::make_shared<Ticket>(std::move(request), std::move(on_done));
    if (uses_slot) {
      made.ticket->keep_name();
    }
  }

  void called_back(const Ticket& ticket) {
    count(Seen::callbacks);
    for (auto each = submissions_.rbegin(); each != submissions_.rend(); ++each) {
      if ((*each)->ticket.get() == &ticket) {
        ++(*each)->callbacks;
        return;
      }
    }
    violated("a callback of nobody's request");
  }

  void refused(std::size_t index, Submission& made, const Status& status) {
    note(index, [&] { return text_of(made) + " is refused: " + status.message(); });
    Meeting::Part& part = meeting(made.name, made.sequence).parts[index];
    part.is_done = true;
    part.code = status.code();
    give_back(*made.buffers);
    stop_for(index, status, text_of(made));
  }

  void finish(std::size_t index, Submission& submission) {
    const Status& status = submission.ticket->status();
    submission.is_done = true;
    Meeting::Part& part = meeting(submission.name, submission.sequence).parts[index];
    part.is_done = true;
    part.code = status.code();
    note(index, [&] { return text_of(submission) + " ends: " + (status ? "ok" : status.message()); });
    if (coverage != nullptr) {
      coverage->count_end(status.code());
    }
    if (status) {
      count(any_killed_ ? Seen::successes_after_a_kill : Seen::successes);
      check_success(index, submission);
    } else {
      check_code(index, status, text_of(submission));
      check_untouched(index, submission);
      rank(index).is_told_of_death |= status.code() == Code::peer_lost;
      rank(index).is_stopped |= status.code() == Code::peer_lost || status.code() == Code::peer_left;
    }
    give_back(*submission.buffers);
  }

  void check_success(std::size_t index, const Submission& submission) {
    const Work& work = history_.works[submission.name];
    const Meeting& meeting = this->meeting(submission.name, submission.sequence);
    for (std::size_t peer = 0; peer < size(); ++peer) {
      const Meeting::Part& part = meeting.parts[peer];
      const bool has_joined = rank(peer).join != nullptr && rank(peer).generation == rank(index).generation;
      if (!part.is_submitted && !has_joined) {
        violated("rank " + std::to_string(index) + ": " + text_of(submission) + " succeeds, and rank " +
                 std::to_string(peer) + " has not submitted it");
        return;
      }
      if (part.is_submitted && part.elements != submission.elements && work.kind != OpKind::barrier &&
          work.kind != OpKind::allgather) {
        violated("rank " + std::to_string(index) + ": " + text_of(submission) + " succeeds, and rank " +
                 std::to_string(peer) + " has another shape");
        return;
      }
    }
    if (work.kind == OpKind::barrier) {
      return;
    }
    if (work.kind == OpKind::allgather) {
      check_gathered(index, submission, meeting);
      return;
    }
    const Buffers& buffers = *submission.buffers;
    const std::vector<std::byte>& result = buffers.output.empty() ? buffers.input : buffers.output;
    if (result != expected(meeting, work, size(), submission.name, submission.sequence, submission.elements)) {
      violated("rank " + std::to_string(index) + ": " + text_of(submission) + " has a wrong result");
    }
    if (!buffers.output.empty()) {
      check_input(index, submission);
    }
  }
  void check_gathered(std::size_t index, const Submission& submission, const Meeting& meeting) {
    const OwnedOutput& output = submission.ticket->results().owned_outputs().front();
    std::vector<std::byte> all;
    const DType dtype = history_.works[submission.name].dtype;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      const std::vector<std::byte> part =
          values_of(peer, submission.name, submission.sequence, dtype, meeting.parts[peer].elements);
      all.insert(all.end(), part.begin(), part.end());
    }
    const bool fits = static_cast<std::size_t>(element_count(output.shape)) * dtype_bytes(dtype) == all.size();
    if (!fits || std::memcmp(output.data.get(), all.data(), all.size()) != 0) {
      violated("rank " + std::to_string(index) + ": " + text_of(submission) + " has gathered something else");
    }
    check_input(index, submission);
  }
  void check_input(std::size_t index, const Submission& submission) {
    if (submission.buffers->input != values_of(index, submission.name, submission.sequence,
                                               history_.works[submission.name].dtype, submission.elements)) {
      violated("rank " + std::to_string(index) + ": the input of " + text_of(submission) + " was written");
    }
  }

  /// An error that leaves the group usable comes from the coordinator, in place of any execution.
  void check_untouched(std::size_t index, const Submission& submission) {
    if (any_killed_ || history_.works[submission.name].kind == OpKind::barrier) {
      return;
    }
    check_input(index, submission);
    if (!is_all(submission.buffers->output, kCallers)) {
      violated("rank " + std::to_string(index) + ": the output of " + text_of(submission) +
               ", which failed, was written");
    }
  }

  /// Whether a program can be told this here.
  void check_code(std::size_t index, const Status& status, const std::string& what) {
    bool may_be = false;
    switch (status.code()) {
      case Code::peer_lost: {
        const int lost = status.failed_rank();
        may_be =
            lost >= 0 && lost < static_cast<int>(size()) && rank(static_cast<std::size_t>(lost)).life == Life::dead;
        break;
      }
      case Code::peer_left: may_be = history_.any_leaves || !scenario().matching; break;
      case Code::mismatch: may_be = !scenario().matching; break;
      case Code::timed_out: may_be = history_.limit != kNever; break;
      case Code::cancelled: may_be = any_cancelled_; break;
      default: break;
    }
    if (!may_be || (scenario().matching && !any_killed_)) {
      violated("rank " + std::to_string(index) + ": " + what +
               " must not fail so: " + std::string(code_name(status.code())) + ": " + status.message());
    }
  }

  void finish_join(std::size_t index) {
    Rank& own = rank(index);
    const TicketPtr join = std::exchange(own.join, nullptr);
    note(index, [&] { return "join ends: " + (join->status() ? std::string("ok") : join->status().message()); });
    if (!join->status()) {
      stop_for(index, join->status(), "join");
      return;
    }
    count(Seen::joins);
    ++own.generation;
    std::fill(own.made.begin(), own.made.end(), 0);
    own.engine->free_name(*join);
  }

  std::size_t owner_of(const Submission& submission) const {
    for (std::size_t index = 0; index < ranks_.size(); ++index) {
      if (ranks_[index]->last[submission.name] == &submission) {
        return index;
      }
    }
    return 0;
  }

  void check_alike(const Meeting& meeting, std::size_t name, std::size_t sequence) {
    for (std::size_t a = 0; a < size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const Meeting::Part& one = meeting.parts[a];
        const Meeting::Part& other = meeting.parts[b];
        if (one.is_done && other.is_done && (one.code == Code::ok) != (other.code == Code::ok)) {
          violated("'" + scenario().names[name].name + "' number " + std::to_string(sequence) +
                   " has different ends on ranks " + std::to_string(b) + " and " + std::to_string(a));
        }
      }
    }
  }

 protected:
  /// So long that who waits for it has found a fault.
  static constexpr Nanoseconds kQuietLimit = 1'000'000 * kSecond;

 private:
  std::string violation_;
  std::vector<std::vector<Meeting>> meetings_;  ///< by name, then by number
};

}  // namespace ronde::engine::histories
