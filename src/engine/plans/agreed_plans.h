// AgreedPlans: what the log has told this rank to do together with the others: the plans of each entry, made under the
// settings in force, run one after the other, and the ends of the requests that they serve.
#pragma once

#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "control/messages.h"
#include "engine/plans/executor.h"
#include "engine/replay/replay.h"
#include "engine/requests/completion.h"
#include "engine/requests/counters.h"
#include "engine/requests/pending_table.h"
#include "observe/observer.h"
#include "transport/peers.h"
#include "types/group.h"

namespace ronde::engine {

/// Under the progress lock.
class AgreedPlans {
 public:
  /// What plans are made of and what becomes of them; all of it must outlive this.
  struct Context {
    const Group& group;
    backend::Backend& backend;
    const transport::Peers& peers;
    const PendingTable& pending;
    Replay& replay;
    Completion& completion;
    Counters& counters;
    const Clock& clock;
  };
  explicit AgreedPlans(Context context);
  /// Null: nobody.
  void observe(observe::Observer* observer) { observer_ = observer; }

  /// For what is added from now on.
  void use_settings(const control::SettingsEntry& settings) { settings_ = settings; }
  void use_table(const Thresholds& thresholds) { executor_.set_table(thresholds); }

  /// Plans what one entry of the log says, behind all before it. INTERNAL if nobody here holds an item.
  Status add(const std::vector<control::ExecEntry::Item>& items);
  /// The instance of this bucket that is under way is launched in its turn.
  void add_launch(std::uint32_t bucket) { executor_.enqueue_launch(bucket); }
  /// As Executor has them.
  const Status& failure() const { return executor_.failure(); }
  const PlanRun& failed() const { return executor_.failed(); }
  /// Moves the first plan on; not if a peer has given up.
  Progress advance(Nanoseconds now);
  /// A peer gave up while a plan ran, so that its results are worth nothing. Nothing moves any more.
  bool peers_gave_up() const { return peers_gave_up_; }
  bool is_idle() const { return executor_.is_idle(); }
  /// When the running plan must have moved on; kNever if nothing runs under a limit.
  Nanoseconds deadline() const { return executor_.deadline(); }
  /// Members that the running plan waits for.
  std::vector<int> waiting_for() const { return executor_.waiting_for(); }

  /// From now on this rank does nothing for the plans under way.
  void abandon();
  /// What peers may store into for the sake of what abandon() has ended, or may have.
  std::vector<MemorySpan> take_exposed() { return std::exchange(exposed_, {}); }
  /// The requests of what was abandoned; some may be done.
  std::vector<TicketPtr> take_abandoned();

 private:
  void started(const PlanRun& run);
  void finished(const PlanRun& run, const Status& status);

  const Context context_;
  Executor executor_;
  control::SettingsEntry settings_;
  observe::Observer* observer_ = nullptr;
  bool peers_gave_up_ = false;
  std::vector<PlanRun> abandoned_;
  std::vector<MemorySpan> exposed_;
};

}  // namespace ronde::engine
