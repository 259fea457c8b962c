#include "cli/measuring/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "cli/measuring/report/format.h"
#include "cli/measuring/workload/sizes.h"

namespace ronde::cli {

Summary summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t count = seconds.size();
  const double median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
  // The k-th smallest with k = ceil(0.99 * count), counted from 1.
  const double p99 = seconds[(99 * count + 99) / 100 - 1];
  return {.min_us = seconds.front() * 1e6, .median_us = median * 1e6, .p99_us = p99 * 1e6};
}

Bandwidth bandwidth(BenchOp op, std::uint64_t bytes, int ranks, double seconds) {
  if (bytes == 0 || seconds <= 0) {
    return {};
  }
  const double algorithm = static_cast<double>(bytes) / seconds;
  return {algorithm, algorithm * bench_traits(op).bus_factor(ranks)};
}

namespace {

/// Nanoseconds are what the clock tells; more digits would be noise.
double rounded(double microseconds) { return std::round(microseconds * 1000) / 1000; }

const char* mode_text(SetMode mode) {
  switch (mode) {
    case SetMode::async: return "all submitted, then waited for";
    case SetMode::blocking: return "one after the other";
    case SetMode::flat: return "as one buffer";
    case SetMode::packed: return "copied into one buffer and back";
  }
  return "";
}

const char* form_text(BenchForm form) {
  switch (form) {
    case BenchForm::name: return "name";
    case BenchForm::slot: return "slot";
    case BenchForm::persistent: return "persistent plan";
  }
  return "";
}

}  // namespace

std::string table_head(const BenchOptions& options, int ranks) {
  std::string what(bench_op_name(options.op));
  if (options.op != BenchOp::barrier) {
    what += " " + options.dtype + (options.in_place ? ", in place" : ", out of place");
    what += options.shared ? ", shared memory" : "";
  }
  if (!options.set.empty()) {
    what += ", " + options.set + " " + mode_text(options.mode);
  }
  what += ", " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + ", by " + form_text(options.form) +
          "; a call takes as long as its slowest rank\n";
  what += format("%8s %8s %12s %12s %12s %12s %12s", "bytes", "calls", "min us", "median us", "p99 us", "algo GB/s",
                 "bus GB/s");
  return what + (options.overlap_us > 0 ? format(" %12s %12s\n", "compute us", "exposed us") : "\n");
}

std::string table_row(const BenchOptions& options, int ranks, const Measurement& measurement) {
  const Summary& summary = measurement.summary;
  const std::string row =
      format("%8s %8llu %12.2f %12.2f %12.2f", size_text(measurement.bytes).c_str(),
             static_cast<unsigned long long>(measurement.calls), summary.min_us, summary.median_us, summary.p99_us);
  if (options.op == BenchOp::barrier) {
    return row + format(" %12s %12s\n", "-", "-");
  }
  const Bandwidth speed = bandwidth(options.op, measurement.bytes, ranks, summary.median_us * 1e-6);
  const std::string speeds = format(" %12.3f %12.3f", speed.algorithm * 1e-9, speed.bus * 1e-9);
  if (options.overlap_us > 0) {
    return row + speeds +
           format(" %12.2f %12.2f\n", measurement.compute_us, summary.median_us - measurement.compute_us);
  }
  return row + speeds + "\n";
}

std::string json_line(const std::string& peer, const BenchOptions& options, int ranks, const Measurement& measurement) {
  nlohmann::ordered_json line = {{"peer", peer},
                                 {"op", bench_op_name(options.op)},
                                 {"dtype", options.dtype},
                                 {"ranks", ranks},
                                 {"bytes", measurement.bytes},
                                 {"place", options.in_place ? "in_place" : "out_of_place"},
                                 {"form", bench_form_name(options.form)},
                                 {"memory", options.shared ? "shared" : "private"}};
  if (!options.set.empty()) {
    line["set"] = options.set;
    line["mode"] = set_mode_name(options.mode);
    line["tensors"] = measurement.tensors;
  }
  if (options.overlap_us > 0) {
    line["compute_us"] = rounded(measurement.compute_us);
    line["exposed_us"] = rounded(measurement.summary.median_us - measurement.compute_us);
  }
  if (measurement.line_ns > 0) {
    line["line_ns"] = rounded(measurement.line_ns);
  }
  line["calls"] = measurement.calls;
  line["min_us"] = rounded(measurement.summary.min_us);
  line["median_us"] = rounded(measurement.summary.median_us);
  line["p99_us"] = rounded(measurement.summary.p99_us);
  return line.dump() + "\n";
}

}  // namespace ronde::cli
