// How many cores this process may use: its affinity mask, and the quota of its control group and of all groups above.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ronde {

/// Cores of the affinity mask, at least 1.
int affinity_cores();

/// The smallest quota, in cores, of version 1 (cpu.cfs_quota_us) and 2 (cpu.max); none if nothing limits. `root` stands
/// in front of every path that is read ("" for the machine, a folder for tests).
std::optional<double> cgroup_quota(const std::string& root = "");

/// What mask and quota leave to this process. Looked up once: limits seldom change, and init shall be quick.
double cores_of_this_process();

/// A rank's equal part of the cores, rounded down, at least 1.
int threads_per_rank(int cores, std::optional<double> quota, int ranks);

/// The pure parts.
/// Of "cpu.max": "max 100000" or "150000 100000".
std::optional<double> parse_cpu_max(std::string_view text);
/// Of "cpu.cfs_quota_us" (-1: none) and "cpu.cfs_period_us".
std::optional<double> parse_cfs(std::string_view quota, std::string_view period);

}  // namespace ronde
