// Fabric: what messages cost between hosts and in them, as LogGOPS has it (Hoefler, Schneider and Lumsdaine,
// "LogGOPSim", 2010): a message of n bytes keeps the sender's processor for o + n O, its host's link for max(g, n G),
// takes L to get to the other host, passes that one's link likewise, and keeps the receiver's processor for o + n O.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ronde::plan {

struct Fabric {
  std::string name = "custom";
  double latency_us = 0;       ///< L: from one host's link to another's
  double overhead_us = 0;      ///< o: of a processor for each message, on either side
  double gap_us = 0;           ///< g: of a host's link for each message, at least
  double link_gbit = 0;        ///< 8 / G: payload that a host's link carries in each direction, in 10^9 bits a second
  double cpu_ns_per_byte = 0;  ///< O: copies and checksum, on either side
  double reduce_ns_per_byte = 0;  ///< for each byte of each value that is added
  double memory_us = 0;           ///< of a processor for a message in a host's memory, on either side
  double memory_ns_per_byte = 0;  ///< the copy of such a message, on either side
  /// How much longer a link takes for each doubling of the connections that share it, where each of them carries more
  /// than window_kib: TCP's get unequal shares, and the slowest is waited for. 0.1: a tenth.
  double sharing_loss = 0;
  double window_kib = 64;     ///< what goes at once, before the receiver has answered (Linux's first window)
  bool has_transport = true;  ///< Ronde has a transport that uses such links as what they are

  bool operator==(const Fabric&) const = default;
};

/// A number of a fabric that people may give.
struct FabricParameter {
  const char* name;
  double Fabric::*value;
  const char* meaning;
};
const std::vector<FabricParameter>& fabric_parameters();

/// A fabric that is known by name, and where its numbers come from.
struct FabricPreset {
  Fabric fabric;
  const char* source;
};
const std::vector<FabricPreset>& fabric_presets();
/// "tcp-1g, tcp-10g, ..."
std::string fabric_names();

/// `name`: of a preset, else a file of JSON: parameters by name, and "like", the preset that has the others (tcp-10g).
/// INVALID_ARGUMENT with a sentence that names the file and the parameter.
Result<Fabric> find_fabric(const std::string& name);
/// The same of the file's text; `path` is for errors.
Result<Fabric> parse_fabric(std::string_view text, const std::string& path);
/// "latency_us=20": changes one parameter.
Status set_parameter(Fabric& fabric, std::string_view assignment);
/// A link must have a rate, and nothing may be negative.
Status check(const Fabric& fabric);

}  // namespace ronde::plan
