#include "cli/bench/host_table_probe.h"

#include <ronde/ronde.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "cli/bench/job_call.h"

namespace ronde::cli {

namespace {

/// How many messages a turn may cost: from links that take no time to processors that do not.
constexpr std::array<int, 7> kTurns = {0, 1, 2, 4, 8, 16, 64};
/// What is better by less than this is not preferred to what is in force.
constexpr double kLeastGain = 0.95;
constexpr int kTurnBuiltIn = 2;
/// Sizes by which turns are compared, in bytes, and those among which one turn ends to be the best way.
constexpr std::array<std::size_t, 2> kSmall = {64, 4096};
constexpr std::array<std::size_t, 8> kSizes = {2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144};
/// The same for the phases of larger tensors between more than two hosts, beside each host to each in one turn.
constexpr std::array<int, 5> kLargeTurns = {1 << 20, 0, 1, 2, 8};
constexpr std::array<std::size_t, 2> kLarge = {131072, 524288};
constexpr int kRounds = 3;
constexpr int kWarmUps = 20;
constexpr int kCalls = 100;

/// The largest of floats, by a persistent plan: between two hosts in order sums are a chain whatever the table.
class Reduction {
 public:
  explicit Reduction(std::size_t bytes)
      : name_("probe." + std::to_string(bytes)),
        elements_(static_cast<std::int64_t>(bytes / sizeof(float))),
        values_(bytes / sizeof(float), 1.0F) {
    tensor_ = {sizeof tensor_, values_.data(), &elements_, 1, RONDE_FLOAT32, RONDE_HOST, 0};
    ronde_request request = {};
    request.struct_size = sizeof request;
    request.op = RONDE_ALLREDUCE;
    request.reduce_op = RONDE_MAX;
    request.name = name_.data();
    request.name_bytes = name_.size();
    request.inputs = request.outputs = &tensor_;
    request.count = 1;
    request.prescale = request.postscale = 1.0;
    is_good_ = ronde_plan_create(nullptr, &request, 1, &plan_) == RONDE_OK;
  }
  ~Reduction() { ronde_plan_destroy(plan_); }
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  bool run(int times) {
    for (int i = 0; i < times && is_good_; ++i) {
      is_good_ = ronde_plan_start(plan_) == RONDE_OK && ronde_plan_wait(plan_, -1) == RONDE_OK;
    }
    return is_good_;
  }

 private:
  const std::string name_;
  const std::int64_t elements_;
  std::vector<float> values_;
  ronde_tensor tensor_ = {};
  ronde_plan* plan_ = nullptr;
  bool is_good_ = false;
};

/// The largest of the ranks' values, on every rank; false if it fails.
bool largest(double& value) {
  const ronde_tensor tensor = {sizeof tensor, &value, nullptr, 0, RONDE_FLOAT64, RONDE_HOST, 0};
  return call_in_job(RONDE_ALLREDUCE, "probe.largest", &tensor, RONDE_MAX) == RONDE_OK;
}

/// Seconds that a call takes of the slowest rank. The calls wait for each other, so no start line is needed.
bool time_of(std::size_t bytes, double& seconds) {
  Reduction reduction(bytes);
  if (!reduction.run(kWarmUps)) {
    return false;
  }
  const auto begin = std::chrono::steady_clock::now();
  if (!reduction.run(kCalls)) {
    return false;
  }
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kCalls;
  return largest(seconds);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Measures tables in turn, so that what disturbs the machine for a while disturbs all of them.
class Probe {
 public:
  explicit Probe(bool tell_progress) : tell_progress_(tell_progress) {}

  /// By table and size, the medians of all rounds. False: why() says why.
  template <std::size_t Sizes>
  bool measure(const char* what, const std::vector<std::string>& tables, const std::array<std::size_t, Sizes>& sizes,
               std::vector<std::array<double, Sizes>>& medians) {
    std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> times;
    for (int round = 0; round < kRounds; ++round) {
      tell(what, round);
      for (std::size_t table = 0; table < tables.size(); ++table) {
        setenv("RONDE_TABLE", tables[table].c_str(), 1);
        bool is_good = ronde_init(nullptr) == RONDE_OK;
        for (std::size_t size = 0; size < Sizes && is_good; ++size) {
          double seconds = 0;
          is_good = time_of(sizes[size], seconds);
          times[{table, size}].push_back(seconds);
        }
        if (!is_good) {
          why_ = ronde_last_error();
        }
        ronde_shutdown();
        if (!is_good) {
          return false;
        }
      }
    }
    medians.resize(tables.size());
    for (const auto& [key, values] : times) {
      medians[key.first][key.second] = median(values);
    }
    return true;
  }
  const std::string& why() const { return why_; }

 private:
  void tell(const char* what, int round) const {
    if (tell_progress_) {
      std::fprintf(stderr, "measuring %s, round %d of %d\n", what, round + 1, kRounds);
    }
  }

  const bool tell_progress_;
  std::string why_;
};

std::string row(int hosts, int turn, std::size_t one_turn, std::size_t gathered) {
  return "hosts " + std::to_string(hosts) + ": one_turn " + std::to_string(one_turn) + ", gathered " +
         std::to_string(gathered) + ", turn " + std::to_string(turn);
}

/// Where a number stands in an array; at its beginning if it is not there.
template <std::size_t Count>
std::size_t index_of(const std::array<int, Count>& all, int number) {
  const auto found = std::find(all.begin(), all.end(), number);
  return found == all.end() ? 0 : static_cast<std::size_t>(found - all.begin());
}

/// Which table's times are the least, all sizes counting alike; `before` if no other's are less by a twentieth.
template <std::size_t Sizes>
std::size_t best_of(const std::vector<std::array<double, Sizes>>& times, std::size_t before) {
  const auto score = [&](std::size_t table) {
    double logarithms = 0;
    for (const double seconds : times[table]) {
      logarithms += std::log(seconds);
    }
    return logarithms / static_cast<double>(Sizes);
  };
  std::size_t best = before;
  double to_beat = score(before) + std::log(kLeastGain);
  for (std::size_t table = 0; table < times.size(); ++table) {
    if (score(table) < to_beat) {
      best = table;
      to_beat = score(table);
    }
  }
  return best;
}

/// The largest size for which one turn should be taken: that by which all sizes together take the least time, `before`
/// if no other is better by a twentieth. By size, how long each takes in one turn and in two phases.
std::size_t border(const std::array<double, kSizes.size()>& in_turns,
                   const std::array<double, kSizes.size()>& in_phases, std::size_t before) {
  const auto cost = [&](std::size_t one_turn) {
    double logarithms = 0;
    for (std::size_t size = 0; size < kSizes.size(); ++size) {
      logarithms += std::log(kSizes[size] <= one_turn ? in_turns[size] : in_phases[size]);
    }
    return logarithms;
  };
  std::size_t best = before;
  double to_beat = cost(before) + std::log(kLeastGain);
  for (const std::size_t size : kSizes) {
    if (const double of_size = cost(size); of_size < to_beat) {
      best = size;
      to_beat = of_size;
    }
  }
  return best;
}

}  // namespace

std::string probe_host_table(int hosts, const HostLimits& before, bool tell_progress, std::string* found) {
  constexpr std::size_t kMuch = std::size_t{1} << 22;
  constexpr std::size_t kAll = std::size_t{1} << 30;
  Probe probe(tell_progress);

  std::vector<std::string> tables;
  for (const int turn : kTurns) {
    tables.push_back(row(hosts, turn, kMuch, kAll));
  }
  std::vector<std::array<double, kSmall.size()>> of_turns;
  if (!probe.measure("turns", tables, kSmall, of_turns)) {
    return probe.why();
  }
  const int turn = kTurns[best_of(of_turns, index_of(kTurns, kTurnBuiltIn))];

  std::vector<std::array<double, kSizes.size()>> of_sizes;
  if (!probe.measure("sizes", {row(hosts, turn, kMuch, kAll), row(hosts, turn, 0, 0)}, kSizes, of_sizes)) {
    return probe.why();
  }
  *found = "hosts " + std::to_string(hosts) + ": one_turn " +
           std::to_string(border(of_sizes[0], of_sizes[1], before.one_turn)) + ", turn " + std::to_string(turn);

  if (hosts > 2) {
    tables.clear();
    for (const int large_turn : kLargeTurns) {
      tables.push_back(row(hosts, turn, 0, 0) + ", large_turn " + std::to_string(large_turn) + ", direct 1073741824");
    }
    std::vector<std::array<double, kLarge.size()>> of_large;
    if (!probe.measure("turns of large tensors", tables, kLarge, of_large)) {
      return probe.why();
    }
    const std::size_t best = best_of(of_large, index_of(kLargeTurns, before.large_turn));
    *found += ", large_turn " + std::to_string(kLargeTurns[best]);
  }
  *found += "\n";
  return "";
}

}  // namespace ronde::cli
