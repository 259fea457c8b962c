// What a person or a script sees of a sweep while it goes on: lines on standard output, how far it is on standard
// error.
#pragma once

#include <string>
#include <vector>

#include "cli/measuring/timing/measure.h"

namespace ronde::cli {

/// Measures and prints; `peer` names the engine in JSON. Returns why it could not, a sentence; empty on success.
std::string measure_and_print(const std::string& peer, const BenchOptions& options, Contestant& contestant,
                              StartLine line);

}  // namespace ronde::cli
