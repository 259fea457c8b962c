#include "plan/timeline_step.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

namespace ronde::plan {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kFewestSteps = 3;

/// One bucket in one step, microseconds of the timeline.
struct Instance {
  double full_us = 0;
  double done_us = 0;
};

/// A row of the timeline: a bucket or a tensor that is replayed.
struct Row {
  std::string name;
  std::size_t bytes = 0;
  std::size_t tensors = 1;
  std::vector<Instance> instances;
};

Status wrong(const std::string& path, const std::string& what) {
  return Status::error(Code::invalid_argument, "'" + path + "' " + what);
}

/// 0 of none.
double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

bool is_replayed_allreduce(const Json& event) {
  return event.value("ph", "") == "X" && event.value("name", "") == "ALLREDUCE" && event.contains("args") &&
         event["args"].is_object() && event["args"].contains("replayed");
}

std::map<int, Row> rows_of(const Json& events) {
  std::map<int, Row> rows;
  for (const Json& event : events) {
    const int id = event.value("pid", 0);
    if (event.value("name", "") == "process_name" && event.contains("args")) {
      rows[id].name = event["args"].value("name", "");
    } else if (is_replayed_allreduce(event)) {
      Row& row = rows[id];
      const double full_us = event.value("ts", 0.0);
      row.bytes = event["args"].value("bytes", std::size_t{0});
      row.tensors = event["args"].value("tensors", std::size_t{1});
      row.instances.push_back({full_us, full_us + event.value("dur", 0.0)});
    }
  }
  return rows;
}

/// Those that come in every step, that is about as often as most do.
std::vector<Row> rows_of_every_step(std::map<int, Row> all) {
  std::size_t most = 0;
  for (const auto& [id, row] : all) {
    most = std::max(most, row.instances.size());
  }
  std::vector<Row> rows;
  for (auto& [id, row] : all) {
    // The first steps of a bucket may have been agreed one by one; the last may be half recorded.
    if (row.bytes > 0 && row.instances.size() + 2 >= most) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

/// One bucket of one step, and which.
struct Dated {
  std::size_t row = 0;
  Instance instance;
};

std::vector<Dated> in_time(const std::vector<Row>& rows) {
  std::vector<Dated> all;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (const Instance& each : rows[row].instances) {
      all.push_back({row, each});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Dated& a, const Dated& b) { return a.instance.full_us < b.instance.full_us; });
  return all;
}

/// The row that is full first in a step: before it nothing was under way for longest.
std::size_t first_row(const std::vector<Dated>& all, std::size_t rows) {
  std::vector<std::vector<double>> quiet_us(rows);
  double done_us = all.front().instance.done_us;
  for (std::size_t i = 1; i < all.size(); ++i) {
    quiet_us[all[i].row].push_back(all[i].instance.full_us - done_us);
    done_us = std::max(done_us, all[i].instance.done_us);
  }
  std::size_t first = 0;
  for (std::size_t row = 1; row < rows; ++row) {
    if (median(quiet_us[row]) > median(quiet_us[first])) {
      first = row;
    }
  }
  return first;
}

/// What every row did in one step.
using WholeStep = std::vector<Instance>;

/// Those in which every row comes once, in time; a step that is not whole is empty.
std::vector<WholeStep> steps_of(const std::vector<Dated>& all, std::size_t rows) {
  const std::size_t first = first_row(all, rows);
  std::vector<WholeStep> steps;
  std::vector<std::size_t> counts(rows, 0);
  WholeStep current(rows);
  const auto end_step = [&] {
    if (counts[first] > 0) {
      const bool is_whole = std::all_of(counts.begin(), counts.end(), [](std::size_t count) { return count == 1; });
      steps.push_back(is_whole ? current : WholeStep());
    }
    counts.assign(rows, 0);
  };
  for (const Dated& each : all) {
    if (each.row == first) {
      end_step();
    }
    ++counts[each.row];
    current[each.row] = each.instance;
  }
  end_step();
  return steps;
}

double end_us(const WholeStep& step) {
  double end = 0;
  for (const Instance& each : step) {
    end = std::max(end, each.done_us);
  }
  return end;
}

double begin_us(const WholeStep& step) {
  double begin = std::numeric_limits<double>::max();
  for (const Instance& each : step) {
    begin = std::min(begin, each.full_us);
  }
  return begin;
}

/// Requires: at least two whole steps follow each other.
Step median_step(const std::vector<Row>& rows, const std::vector<WholeStep>& steps) {
  std::vector<double> leads_us;  // from the end of a step's last bucket to the next step's first being full
  std::vector<std::vector<double>> full_us(rows.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].empty()) {
      continue;
    }
    const double begin = begin_us(steps[i]);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      full_us[row].push_back(steps[i][row].full_us - begin);
    }
    if (i > 0 && !steps[i - 1].empty()) {
      leads_us.push_back(std::max(0.0, begin - end_us(steps[i - 1])));
    }
  }
  const double lead_us = median(leads_us);
  Step recorded;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double ready_us = lead_us + median(full_us[row]);
    recorded.buckets.push_back({rows[row].name, rows[row].bytes, rows[row].tensors, ready_us * 1e3});
    recorded.compute_ns = std::max(recorded.compute_ns, ready_us * 1e3);
  }
  std::stable_sort(recorded.buckets.begin(), recorded.buckets.end(),
                   [](const StepBucket& a, const StepBucket& b) { return a.ready_ns < b.ready_ns; });
  return recorded;
}

/// How many whole steps come directly one after the other, at most.
std::size_t longest_run(const std::vector<WholeStep>& steps) {
  std::size_t longest = 0;
  std::size_t now = 0;
  for (const WholeStep& step : steps) {
    now = step.empty() ? 0 : now + 1;
    longest = std::max(longest, now);
  }
  return longest;
}

/// Throws Json::exception where a value is of another type than in Ronde's timelines.
Result<Step> step_of_events(const Json& events, const std::string& path) {
  if (!events.is_array() || events.empty() || !events.front().is_object()) {
    return wrong(path, "is no timeline: expected a JSON array of events, as RONDE_TIMELINE makes it");
  }
  const Json owner = events.front().value("args", Json::object());
  if (!owner.is_object() || !owner.contains("rank") || !owner.contains("size")) {
    return wrong(
        path,
        "is no rank's timeline of Ronde: its first event does not say \"rank\" and \"size\". Give the file of one "
        "rank, not merged ones");
  }
  for (const Json& event : events) {
    if (!event.is_object()) {
      return wrong(path, "is no timeline of Ronde: found " + event.dump() + " in place of an event");
    }
  }
  const std::vector<Row> rows = rows_of_every_step(rows_of(events));
  const std::vector<WholeStep> steps = rows.empty() ? std::vector<WholeStep>() : steps_of(in_time(rows), rows.size());
  if (const std::size_t found = longest_run(steps); found < kFewestSteps) {
    return wrong(path, "has " + std::to_string(found) +
                           " whole steps in a row in which the same all-reduces were replayed, and at least " +
                           std::to_string(kFewestSteps) +
                           " are needed: record more steps of the same tensors, on two ranks or more");
  }
  Step step = median_step(rows, steps);
  if (step.compute_ns <= 0) {
    return wrong(path, "has steps that compute nothing: each begins when the one before ends");
  }
  step.name = path;
  step.ranks = std::max(1, owner.value("size", 1));
  return step;
}

}  // namespace

Result<Step> parse_timeline(std::string_view text, const std::string& path) {
  try {
    return step_of_events(Json::parse(text, nullptr, false), path);
  } catch (const Json::exception& error) {
    return wrong(
        path, std::string("is no timeline of Ronde: one of its events has a value of another type: ") + error.what());
  }
}

Result<Step> read_timeline(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    return wrong(path, "cannot be read");
  }
  return parse_timeline(text.str(), path);
}

}  // namespace ronde::plan
