// Sink: what the member's half of agreement wants done. The engine implements it; its calls come from inside
// Member::step(), that is under the gate: they may store words, queue and copy, but call no callback and no step().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agreement/flags.h"
#include "agreement/mode.h"
#include "base/clock.h"
#include "base/status.h"
#include "control/messages.h"

namespace ronde::agreement {

/// One bit per member of the group.
using RankSet = std::vector<bool>;

class Sink {
 public:
  virtual ~Sink() = default;

  // ---- Words and data. None may allocate: they are the hot path.

  /// Store pub = flag (release). What was copied in before is part of it. In an ordered group: send FULL, which may
  /// allocate.
  virtual void publish(std::uint32_t bucket, Flag flag) = 0;
  /// The instance has succeeded: every place's request is over. Tickets are finished after the gate.
  virtual void complete(std::uint32_t bucket, std::uint64_t instance) = 0;
  /// The instance is over and nothing came of it: its requests go to the coordinator.
  virtual void voided(std::uint32_t bucket) = 0;
  /// Bring the tensor of this place in for this instance: at its submit, or as a request of negotiation moves into its
  /// bucket at INSTALL. Nothing to do where buckets need no copy.
  virtual void copy_in(std::uint32_t bucket, std::uint32_t place, std::uint64_t instance) = 0;

  // ---- Breaks and deaths.

  /// Store frozen = epoch (release, after every pub store), and ring every bell. `reason`: for who looks on.
  virtual void set_frozen(std::uint32_t epoch, Reason reason) = 0;
  /// In an ordered group in its place: send FROZEN.
  virtual void send_frozen(std::uint32_t epoch, Reason reason) = 0;
  /// Say that this rank touches no data any more (release, after the last store to it) since these are dead, or more of
  /// which it has heard; ring the survivors.
  virtual void store_quiet(const RankSet& lost) = 0;

  // ---- To the coordinator, in this order.

  /// Set message.timeout to what is left until `deadline`, then send. Returns the deadline, which the engine may know
  /// better: requests are placed without a look at the clock.
  virtual Nanoseconds send_request(control::RequestMessage message, Nanoseconds deadline) = 0;
  virtual void send_end(control::EndMessage message) = 0;
  virtual void send_join() = 0;
  virtual void send_leave() = 0;

  // ---- What the log says.

  virtual void settings(const control::SettingsEntry& entry) = 0;
  /// These hold for what is executed and prepared from here on, and not for anything before.
  virtual void table(const Thresholds& thresholds) = 0;
  /// Plan and execute these together, behind all that was agreed before; step(Executed) for each when it is over. An
  /// item with a descriptor that this rank did not submit: it has joined and takes part with neutral values.
  virtual void execute(std::vector<control::ExecEntry::Item> items) = 0;
  /// In an ordered group: launch the instance of this bucket that all have published, behind all that was agreed
  /// before. step(AllPublished) once it moves.
  virtual void launch(std::uint32_t bucket) = 0;
  /// Make this rank's side of the bucket ready, zero its line, then answer PREPARED to the coordinator.
  virtual void prepare(const Bucket& bucket) = 0;
  /// These are in force now, beside what already is if `added`: names may be looked up by Member::where().
  virtual void install(std::uint32_t epoch, std::span<const std::uint32_t> buckets, bool added) = 0;
  /// The epoch is over here. Nothing of its buckets is touched any more.
  virtual void ended(std::uint32_t epoch) = 0;
  /// Never in force again. Say FREE for its line and slots once no thread copies into them any more; not if this rank
  /// has refused the bucket.
  virtual void retire(std::uint32_t bucket) = 0;
  virtual void join_done(const control::JoinDoneEntry& entry) = 0;

  // ---- Ends.

  /// This request is over with an error. Not inline with submit: queue it.
  virtual void fail(const std::string& name, Status status) = 0;
  /// Something happened that cannot: a bug here or in a peer. The engine should fail the group with INTERNAL.
  virtual void bug(std::string_view what) = 0;
};

}  // namespace ronde::agreement
