// Epochs: the coordinator's part in replay. It hears what is answered in negotiation, plans buckets from it
// (bucket_planner.h), has them prepared, and says which are put in force and retired when. An epoch begins with an
// INSTALL and is over once every member has left it.
//
// What is logged in which order is the coordinator's affair: here are the entries.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agreement/bucket_acknowledgements.h"
#include "agreement/bucket_planner.h"
#include "agreement/call_bursts.h"
#include "agreement/epoch_backoff.h"
#include "agreement/held_requests.h"
#include "control/messages.h"
#include "types/bucket_layout.h"
#include "types/group.h"

namespace ronde::agreement {

class Epochs {
 public:
  /// Buckets come into force.
  struct InForce {
    std::variant<control::InstallEntry, control::AddEntry> entry;  ///< to be logged
    std::vector<std::string> names = {};                           ///< that it concerns
    std::set<std::string> planning_names = {};                     ///< of unnamed calls that it concerns
  };

  /// `group` and `layout` must outlive this. `layout`: where buckets lie; null: nothing is planned.
  Epochs(const Group& group, control::SettingsEntry settings, BucketLayout* layout)
      : group_(group),
        layout_(layout),
        limits_(settings.limits),
        planner_(settings, layout),
        acknowledgements_(group.size()),
        ended_(static_cast<std::size_t>(group.size())) {}

  bool plans() const { return layout_ != nullptr; }

  // ---- What happened. `position`: how many entries are logged by now.

  /// The name was answered with EXEC. True: it is the moment to put in force what is ready.
  bool on_exec(const std::string& name, const HeldRequest& held, const MemoryPlaces& places, std::uint64_t position);
  /// The same with ERROR.
  bool on_error(const std::string& name, const HeldRequest& held, std::uint64_t position);
  /// What is proposed after this is planned by this row.
  void on_table(const Thresholds& thresholds) { limits_ = {thresholds.inlined, thresholds.staged}; }
  /// The member has left the epoch. INTERNAL if it is another than the running one, or said twice.
  Status on_end(int member, const control::EndMessage& message);
  /// The member's answer to PREPARE.
  Status on_prepared(int member, const control::PreparedMessage& message);
  /// The member does not use this bucket any more; its layout is taken back when all have said so.
  Status on_free(int member, std::uint32_t bucket);

  // ---- What is to be logged. Requires: plans().

  /// New buckets, one PREPARE each. `all_answered`: no request is held.
  std::vector<control::PrepareEntry> prepare(bool all_answered);
  /// INSTALL if no epoch runs, ADD if one does; none if nothing is ready, or members have begun to leave the epoch.
  std::optional<InForce> put_in_force();
  std::optional<control::RetireEntry> retire();

  /// Of the last INSTALL; 0 before the first.
  std::uint32_t epoch() const { return epoch_; }
  /// A bucket may be in force on some member.
  bool is_running() const { return epoch_ > 0 && !is_over_; }
  /// So many buckets are planned that those not in use should go, for which the epoch must end.
  bool wants_break() const { return is_running() && planner_.live() >= many_; }
  /// How many new buckets make wants_break() true; if more buckets were in use, as many as these.
  void set_many(std::size_t many) { many_ = fewest_ = many; }

 private:
  std::string rank_text(int member) const;
  void drop_incomplete_bursts(std::vector<std::uint32_t>& buckets);
  void plan_what_is_crowded(const control::EndMessage& message);
  void on_over();

  const Group& group_;
  BucketLayout* const layout_;
  ByteLimits limits_;
  BucketPlanner planner_;
  CallBursts bursts_;
  BucketAcknowledgements acknowledgements_;
  EpochBackoff backoff_;
  std::uint32_t epoch_ = 0;
  bool is_over_ = false;       ///< all have left epoch_
  std::vector<bool> ended_;    ///< by member: has left epoch_
  std::size_t fewest_ = 1024;  ///< as set_many() has it
  std::size_t many_ = fewest_;
  std::vector<std::uint32_t> unused_;  ///< as the first member has said at its END
};

}  // namespace ronde::agreement
