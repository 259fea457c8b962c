#include "cli/trace_merge.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "base/clock.h"

namespace ronde::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Trace {
  std::string path;
  std::vector<Json> events;
  Json owner;  ///< what the first event says
  bool is_cut = false;

  int rank() const { return owner.at("rank").get<int>(); }
  std::string who() const { return "rank " + std::to_string(rank()); }
};

Status wrong(const std::string& path, const std::string& what) {
  return Status::error(Code::invalid_argument, "'" + path + "' " + what);
}

/// A file system on which a timeline is written in place may hold one that ends in the middle.
Json parse(const std::string& text, bool& is_cut) {
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded()) {
    is_cut = true;
    const std::size_t last = text.rfind("},\n");
    parsed = last == std::string::npos ? parsed : Json::parse(text.substr(0, last + 1) + "]", nullptr, false);
  }
  return parsed;
}

Result<Trace> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || std::filesystem::is_directory(path)) {
    return wrong(path, "cannot be read");
  }
  text << file.rdbuf();
  Trace trace;
  trace.path = path;
  const Json all = parse(text.str(), trace.is_cut);
  if (!all.is_array() || all.empty() || !all.front().is_object()) {
    return wrong(path, "is no timeline: expected a JSON array of events");
  }
  trace.owner = all.front().value("args", Json::object());
  for (const char* each : {"rank", "start_monotonic_ns", "start_time_since_epoch_in_micros"}) {
    if (!trace.owner.is_object() || !trace.owner.contains(each) || !trace.owner[each].is_number_integer()) {
      return wrong(path, std::string("is no timeline of Ronde: its first event does not say \"") + each +
                             "\". Merge the files that the ranks wrote, each once");
    }
  }
  for (const Json& event : all) {
    const bool is_timed = event.is_object() && event.contains("ts") && event["ts"].is_number();
    if (!event.is_object() || !event.contains("pid") || (!is_timed && event.value("ph", "") != "M")) {
      return wrong(path, "is no timeline of Ronde: found the event " + event.dump());
    }
    trace.events.push_back(event);
  }
  return trace;
}

/// The moments at which traces start, on one clock.
///
/// Ranks of one boot of one machine have one monotonic clock. How another host's stands to the job's clock its ranks
/// have found by echoes as they met (base/job_clock.h); of those of one host the best one counts for all. Where some
/// host has none, or another job's, hosts go by the time of day.
class Starts {
 public:
  explicit Starts(const std::map<int, Trace>& traces) : origin_(traces.begin()->second) {
    for (const auto& [rank, trace] : traces) {
      note_host(trace);
    }
    for (const auto& [boot, host] : hosts_) {
      goes_by_job_clock_ = goes_by_job_clock_ && host.is_known && host.job_clock == hosts_.begin()->second.job_clock;
      within_ = std::max(within_, host.within);
    }
  }

  /// Microseconds from the first rank's start to that of `trace`.
  double from_first(const Trace& trace) const {
    if (boot(trace) == boot(origin_) && !boot(trace).empty()) {
      return difference(trace, "start_monotonic_ns") / 1000;
    }
    if (!goes_by_job_clock_) {
      return difference(trace, "start_time_since_epoch_in_micros");
    }
    const std::int64_t more_behind = hosts_.at(boot(trace)).behind - hosts_.at(boot(origin_)).behind;
    return (difference(trace, "start_monotonic_ns") + static_cast<double>(more_behind)) / 1000;
  }

  /// How well several hosts' clocks are known; nothing of one host.
  std::optional<std::string> note() const {
    if (hosts_.size() < 2) {
      return std::nullopt;
    }
    if (!goes_by_job_clock_) {
      return "the hosts' clocks are aligned by the time of day, which may be off by milliseconds and more: not all of "
             "these timelines say how their host's clock stands to the others'";
    }
    std::ostringstream text;
    text << "the clocks of " << hosts_.size() << " hosts were compared with the job's as the ranks met, each to within "
         << static_cast<double>((within_ + kMicrosecond - 1) / kMicrosecond) / 1000 << " ms";
    return text.str();
  }

 private:
  struct Host {
    bool is_known = false;
    std::string job_clock;
    std::int64_t behind = 0;
    std::int64_t within = 0;
  };

  static std::string boot(const Trace& trace) { return trace.owner.value("boot_id", ""); }
  double difference(const Trace& trace, const char* field) const {
    return static_cast<double>(trace.owner[field].get<std::int64_t>() - origin_.owner[field].get<std::int64_t>());
  }
  void note_host(const Trace& trace) {
    Host& host = hosts_[boot(trace)];
    const auto number = [&](const char* field) {
      const auto found = trace.owner.find(field);
      return found != trace.owner.end() && found->is_number_integer() ? std::optional(found->get<std::int64_t>())
                                                                      : std::nullopt;
    };
    const auto behind = number("behind_job_clock_ns");
    const auto within = number("job_clock_within_ns");
    const auto clock = trace.owner.find("job_clock_boot_id");
    if (boot(trace).empty() || !behind || !within || clock == trace.owner.end() || !clock->is_string() ||
        (host.is_known && host.within <= *within)) {
      return;
    }
    host = {true, clock->get<std::string>(), *behind, *within};
  }

  const Trace& origin_;
  std::map<std::string, Host> hosts_;  ///< by boot
  bool goes_by_job_clock_ = true;
  std::int64_t within_ = 0;
};

Json metadata(const char* name, int rank, int row, const char* key, const Json& value) {
  return {{"name", name}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{key, value}}}};
}

/// A trace's rows as threads of a process of its own; what has a time goes to `timed`.
class Mover {
 public:
  Mover(const Trace& trace, double offset, std::vector<Json>& names, std::vector<Json>& timed)
      : trace_(trace), offset_(offset), names_(names), timed_(timed) {}

  void move(std::vector<std::string>& notes) {
    const int rank = trace_.rank();
    const std::string host = trace_.owner.value("host", "");
    names_.push_back(metadata("process_name", rank, 0, "name", trace_.who() + (host.empty() ? "" : " (" + host + ")")));
    names_.push_back(metadata("process_sort_index", rank, 0, "sort_index", rank));
    names_.push_back(metadata("thread_name", rank, 0, "name", "marks"));
    for (const Json& event : trace_.events) {
      event["ph"] == "M" ? move_name(event) : move_timed(event);
    }
    if (dropped_ > 0) {
      const std::string text = std::to_string(dropped_) + " events dropped";
      names_.push_back(metadata("process_labels", rank, 0, "labels", text));
      notes.push_back(trace_.who() + ": " + text + ", since they came faster than they could be written");
    }
    if (trace_.is_cut) {
      notes.push_back(trace_.who() + ": '" + trace_.path + "' ends in the middle of an event, which is left out");
    }
    for (const auto& [row, events] : open_) {
      if (!events.empty()) {
        notes.push_back(trace_.who() + ": ended in the middle of " + events.back() + " of '" + row_names_[row] + "'");
      }
    }
  }

 private:
  void move_name(const Json& event) {
    const int row = event["pid"].get<int>();
    const Json& arguments = event.value("args", Json::object());
    const std::string name = event.value("name", "");
    if (name == "DROPPED") {
      dropped_ += arguments.value("events", std::uint64_t{0});
    } else if (row != 0 && name == "process_name") {
      row_names_[row] = arguments.value("name", "");
      names_.push_back(metadata("thread_name", trace_.rank(), row, "name", row_names_[row]));
    } else if (row != 0 && name == "process_sort_index") {
      names_.push_back(metadata("thread_sort_index", trace_.rank(), row, "sort_index", row));
    }
  }

  void move_timed(const Json& event) {
    Json moved = event;
    const int row = event["pid"].get<int>();
    moved["pid"] = trace_.rank();
    moved["tid"] = row;
    moved["ts"] = event["ts"].get<double>() + offset_;
    if (event["ph"] == "B") {
      open_[row].push_back(event.value("name", ""));
    } else if (event["ph"] == "E" && !open_[row].empty()) {
      open_[row].pop_back();
    }
    timed_.push_back(std::move(moved));
  }

  const Trace& trace_;
  const double offset_;
  std::vector<Json>& names_;
  std::vector<Json>& timed_;
  std::map<int, std::vector<std::string>> open_;
  std::map<int, std::string> row_names_;
  std::uint64_t dropped_ = 0;
};

}  // namespace

Result<MergedTrace> merge_traces(const std::vector<std::string>& paths) {
  std::map<int, Trace> traces;
  for (const std::string& path : paths) {
    RONDE_ASSIGN_OR_RETURN(Trace trace, read(path));
    if (const auto other = traces.find(trace.rank()); other != traces.end()) {
      return wrong(path, "and '" + other->second.path + "' are both of rank " + std::to_string(trace.rank()) +
                             "; merge the files of one job, each once");
    }
    const int rank = trace.rank();
    traces.emplace(rank, std::move(trace));
  }
  if (traces.empty()) {
    return Status::error(Code::invalid_argument, "no timeline is given to merge");
  }
  const Starts starts(traces);
  double earliest = 0;
  for (const auto& [rank, trace] : traces) {
    earliest = std::min(earliest, starts.from_first(trace));
  }
  MergedTrace merged;
  std::vector<Json> names;
  std::vector<Json> timed;
  for (const auto& [rank, trace] : traces) {
    Mover(trace, starts.from_first(trace) - earliest, names, timed).move(merged.notes);
  }
  if (const std::optional<std::string> note = starts.note()) {
    merged.notes.push_back(*note);
  }
  // Stable: of two events of a row at one moment the end of one comes before the beginning of the next, as in the file.
  std::stable_sort(timed.begin(), timed.end(),
                   [](const Json& a, const Json& b) { return a["ts"].get<double>() < b["ts"].get<double>(); });
  merged.ranks = traces.size();
  merged.events = timed.size();
  for (const std::vector<Json>* part : {&names, &timed}) {
    for (const Json& event : *part) {
      merged.text += merged.text.empty() ? "[\n" : ",\n";
      merged.text += event.dump();
    }
  }
  merged.text += "\n]\n";
  return merged;
}

}  // namespace ronde::cli
