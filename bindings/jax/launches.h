// Launches: executions of a compiled program that have ended on this rank before anything of Ronde's began in them.
//
// Such an execution says so to nobody, as where an argument is the result of another program that has failed. Other
// ranks may have begun its calls, which are not to meet those of the next one.
//
// XLA has a number for each execution, the run id. JAX's binding (jaxlib, PyLoadedExecutable) counts it for each
// executable, from a number on that it makes from the executable's text, so executions of one executable have
// consecutive numbers: seen with JAX 0.6.2 to 0.10.2. Older ones do not tell. A number that is left out is an execution
// that was not opened. (Nothing is known of programs that may end without being opened.) A program may be
// compiled several times, for arrays of other shapes, say: each executable's numbers are a line of their own, which a
// number belongs to if it comes closely behind.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace ronde::jax {

/// Not to be used by several threads at once.
class Launches {
 public:
  /// An execution of the program is opened, or begins its first call. Returns how many of its executable were not since
  /// the one before, in this job. `epoch`: of the job.
  std::int64_t left_out(std::uint64_t program, std::int64_t launch, std::int64_t epoch);

 private:
  struct Line {
    std::int64_t last;
    std::int64_t epoch;
  };
  std::map<std::uint64_t, std::vector<Line>> lines_;  ///< by program; the line that was used last comes last
};

}  // namespace ronde::jax
