// What the launcher and the guardian tell each other: records of a fixed size, one packet each, on a socket pair. Both
// ends are one program, so a record is its memory.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace ronde::launch {

/// From the guardian.
struct Report {
  enum class Kind : std::int32_t {
    started,      ///< rank's program runs; number is its pid
    not_started,  ///< number is the error, by_signal whether of exec (else of fork); no further rank is started
    ended,        ///< rank's process has ended; number is its code or, if by_signal, its signal
    empty,        ///< no process of the job is left (number: those that could not be killed); the last report
  };
  Kind kind = Kind::empty;
  std::int32_t rank = -1;
  std::int32_t by_signal = 0;
  std::int32_t number = 0;
  Nanoseconds moment = 0;
};

/// From the launcher. Its end of the channel closing means: kill all.
struct Command {
  enum class Whom : std::int32_t {
    ranks,   ///< the ranks' own processes
    groups,  ///< their process groups, as Ctrl-C of a terminal would
    all,     ///< every process of the job
  };
  Whom whom = Whom::all;
  std::int32_t signal = 0;  ///< SIGKILL to `all` is repeated until none is left
};

}  // namespace ronde::launch
