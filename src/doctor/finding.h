// What `ronde doctor` has found: one thing each, and what to do about it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ronde::doctor {

enum class Grade { ok, notice, warning, failure };

struct Finding {
  Grade grade = Grade::ok;
  std::string subject;  ///< "shared memory"
  std::string text;     ///< what is
  std::string advice;   ///< what to do; empty where all is well
};

std::string_view grade_name(Grade grade);

/// A package that Python can import.
struct Package {
  std::string name;
  std::string version;

  bool operator==(const Package&) const = default;
};

/// Of one host.
struct HostReport {
  std::string host;
  std::vector<Finding> findings;
  std::string python;  ///< its version; empty: none was found
  std::vector<Package> packages;
  std::string processor;  ///< roughly its level: x86-64-v3
};

/// Of two hosts that a job's ranks would connect.
struct PairReport {
  int from = 0, to = 0;  ///< ranks: one on each host
  Finding finding;
};

/// As JSON, for the way between processes.
std::string encode(const HostReport& report);
Result<HostReport> decode_host(std::string_view text);
std::string encode(const std::vector<PairReport>& pairs);
Result<std::vector<PairReport>> decode_pairs(std::string_view text);

/// What can only be seen of all hosts together: other versions of Python or of packages.
std::vector<Finding> compare(const std::vector<HostReport>& hosts);

/// For people, and for programs (one JSON object).
std::string as_text(const std::vector<HostReport>& hosts, const std::vector<PairReport>& pairs,
                    const std::vector<Finding>& together);
std::string as_json(const std::vector<HostReport>& hosts, const std::vector<PairReport>& pairs,
                    const std::vector<Finding>& together);
/// Of all findings the worst.
Grade worst(const std::vector<HostReport>& hosts, const std::vector<PairReport>& pairs,
            const std::vector<Finding>& together);

}  // namespace ronde::doctor
