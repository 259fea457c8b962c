// The traps of the protocol, as deliberate faults (docs/agreement.md). They exist in the program agreement_mutants_test
// only, which breaks one rule at a time and shows that the interleaving test sees it. Elsewhere broken() is a constant
// and no code remains of it.
#pragma once

#include <cstdint>

#include "types/instance_word.h"

namespace ronde::agreement {

enum class Trap : std::int32_t {
  none = 0,
  no_freeze_wait,
  no_publish_gate,
  frozen_stops_reducing,
  leave_drain_on_own_done,
  complete_on_own_done,
  no_epoch_in_flag,
  install_before_all_ended,
  no_label_drop,
  no_resend_after_add,
  install_out_of_phase,
  no_owed_error,
  owed_is_a_flag,
  read_log_while_draining,
  join_with_outstanding,
  join_does_not_break,
  error_before_quiet,
  reduce_before_all_published,
  one_inline_line,
  cancel_before_decision,
  calls_not_compared,
  launch_by_flags,
  launch_after_break,
  freeze_is_break,
  kCount,
};

#ifdef RONDE_AGREEMENT_MUTANTS
/// The rule that is broken now. One thread.
inline Trap broken_trap = Trap::none;
inline bool broken(Trap trap) { return trap == broken_trap; }
/// Of flags.h.
struct EpochFault {
  static bool ignores_epoch() { return broken(Trap::no_epoch_in_flag); }
};
#else
constexpr bool broken(Trap) { return false; }
using EpochFault = NoFault;
#endif

}  // namespace ronde::agreement
