#include "cli/measuring/timing/measure.h"

#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "cli/measuring/timing/compute.h"
#include "cli/measuring/timing/own_core.h"
#include "cli/measuring/verification/expectation.h"
#include "cli/measuring/workload/tensor_sets.h"

namespace ronde::cli {

namespace {

using SteadyClock = std::chrono::steady_clock;

/// Calls that --seconds does not leave out: the first touch memory.
constexpr std::uint64_t kLeastWarmUp = 2;

/// How long ranks may be apart at the start line: verifying the largest tensors takes them unequally long.
constexpr std::chrono::seconds kMeetLimit{120};

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

/// The tensors of one measurement: what is filled and checked, and what the contestant sees. Both are the same but
/// where tensors are packed into one buffer.
struct Tensors {
  std::vector<TensorPlace> filled;
  std::vector<TensorPlace> handed_over;
};

class Loop {
 public:
  Loop(const BenchOptions& options, Contestant& contestant, StartLine line, const SweepEvents& events)
      : options_(options),
        contestant_(contestant),
        line_(line),
        events_(events),
        expectation_(options, contestant.rank(), contestant.size()),
        compute_(options.overlap_us > 0 ? Compute(options.overlap_us) : Compute()) {}

  /// One size of a sweep, or the set: `tensors` has the bytes of each.
  std::string measure(const std::string& label, const std::vector<std::uint64_t>& tensors) {
    std::string failure = contestant_failure(open(label, tensors));
    if (failure.empty()) {
      failure = calls(std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0}), tensors.size());
    }
    contestant_.close();
    return failure;
  }

 private:
  bool is_packed() const { return !options_.set.empty() && options_.mode == SetMode::packed; }
  bool is_async() const { return !options_.set.empty() && options_.mode == SetMode::async; }

  /// Lays the tensors out and hands them to the contestant.
  bool open(const std::string& label, std::vector<std::uint64_t> bytes) {
    const std::uint64_t all = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
    if (!options_.set.empty() && options_.mode == SetMode::flat) {
      bytes = {all};
    }
    tensors_ = {};
    if (!lay_out(bytes, options_.in_place || is_packed(), &tensors_.filled)) {
      return false;
    }
    if (!is_packed()) {
      tensors_.handed_over = tensors_.filled;
    } else if (!lay_out({all}, true, &tensors_.handed_over)) {
      return false;
    }
    return contestant_.open(options_, label, tensors_.handed_over);
  }

  bool lay_out(const std::vector<std::uint64_t>& bytes, bool in_place, std::vector<TensorPlace>* places) {
    if (options_.op == BenchOp::barrier) {
      places->push_back({});
      return true;
    }
    std::vector<void*> inputs;
    std::vector<void*> outputs;
    const bool has_outputs = !in_place && !makes_output(options_.op);
    if (!contestant_.allocate(bytes, &inputs) || (has_outputs && !contestant_.allocate(bytes, &outputs))) {
      return false;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      void* const output = has_outputs ? outputs[i] : (in_place ? inputs[i] : nullptr);
      places->push_back({.input = inputs[i], .output = output, .bytes = bytes[i]});
    }
    return true;
  }

  /// All calls of one measurement.
  std::string calls(std::uint64_t bytes, std::size_t count) {
    const std::uint64_t iterations = options_.iterations != 0 ? options_.iterations : iterations_for(bytes);
    const std::uint64_t warm_up = warm_up_for(iterations);
    Measurement measurement{.bytes = bytes, .tensors = count};
    std::string failure = meet();
    if (!failure.empty()) {
      return failure;
    }
    measurement.line_ns = line_.line_ns();
    std::vector<double> seconds;
    std::vector<double> compute_seconds;
    bool is_warm = false;
    const auto begin = SteadyClock::now();
    for (std::uint64_t call = 0; call < warm_up + iterations; ++call) {
      fill(call);
      contestant_.prepare();
      // Of all ranks' opinions rank 0's count: on what is the last call, in one_call(), and on what is timed, at the
      // end.
      const double spent = options_.seconds > 0 ? seconds_since(begin) / options_.seconds : 0;
      is_warm = is_warm || call >= warm_up || (call >= kLeastWarmUp && spent > 0.5);
      line_.own().is_last = is_warm && spent > 1 ? 1 : 0;
      if (failure = one_call(call); !failure.empty()) {
        return failure;
      }
      if (is_warm) {
        seconds.push_back(line_.longest_seconds());
        compute_seconds.push_back(line_.longest_compute_seconds());
      }
      tell(bytes, call + 1, warm_up + iterations);
      if (is_last_) {
        break;
      }
    }
    if (contestant_.rank() == 0) {
      measurement.calls = seconds.size();
      measurement.summary = summarize(std::move(seconds));
      measurement.compute_us = summarize(std::move(compute_seconds)).median_us;
      events_.measured(contestant_.size(), measurement);
    }
    return "";
  }

  void fill(std::uint64_t call) {
    for (std::size_t i = 0; i < tensors_.filled.size(); ++i) {
      expectation_.input.fill(tensors_.filled[i].input, tensors_.filled[i].bytes, call + i);
    }
  }

  std::string check(std::uint64_t call) const {
    if (expectation_.results.empty()) {
      return "";
    }
    for (std::size_t i = 0; i < tensors_.filled.size(); ++i) {
      const void* const result = is_packed() ? tensors_.filled[i].output : contestant_.result(i);
      if (result == nullptr && tensors_.filled[i].bytes != 0) {
        return "there is no result of tensor " + std::to_string(i);
      }
      if (std::string wrong = expectation_.check(result, tensors_.filled[i].bytes, call + i); !wrong.empty()) {
        return tensors_.filled.size() == 1 ? wrong : "tensor " + std::to_string(i) + ": " + wrong;
      }
    }
    return "";
  }

  std::string one_call(std::uint64_t call) {
    if (options_.overlap_us > 0) {
      // The same computing alone, again before each call: its speed changes with the machine's.
      if (std::string apart = meet(); !apart.empty()) {
        return apart;
      }
      const auto begin = SteadyClock::now();
      for (std::size_t i = 0; i < tensors_.handed_over.size(); ++i) {
        compute_.run();
      }
      line_.own().compute_seconds = seconds_since(begin);
    }
    std::string failure = meet();
    if (!failure.empty()) {
      return failure;
    }
    const auto begin = SteadyClock::now();
    const bool is_good = timed();
    line_.own().seconds = seconds_since(begin);
    is_last_ = line_.of(0).is_last != 0;  // before the next meet(), after which rank 0 writes it again
    failure = contestant_failure(is_good);
    if (failure.empty()) {
      failure = check(call);
    }
    line_.own().has_failed = failure.empty() ? 0 : 1;
    const std::string apart = meet();
    if (failure.empty() && apart.empty() && line_.any_failed()) {
      return "another rank failed";
    }
    return failure.empty() ? apart : failure;
  }

  /// What is timed.
  bool timed() {
    const std::size_t count = tensors_.handed_over.size();
    if (is_async()) {
      for (std::size_t i = 0; i < count; ++i) {
        compute();
        if (!contestant_.submit(i)) {
          return false;
        }
      }
      return contestant_.wait_all();
    }
    if (is_packed()) {
      copy(true);
    }
    for (std::size_t i = 0; i < count; ++i) {
      compute();
      if (!contestant_.run(i)) {
        return false;
      }
    }
    if (is_packed()) {
      copy(false);
    }
    return true;
  }

  void compute() {
    if (options_.overlap_us > 0) {
      compute_.run();
    }
  }

  /// The tensors into the one buffer that the contestant sees, or back.
  void copy(bool in) {
    auto* buffer = static_cast<std::byte*>(tensors_.handed_over.front().input);
    for (const TensorPlace& tensor : tensors_.filled) {
      std::memcpy(in ? buffer : tensor.output, in ? tensor.input : buffer, tensor.bytes);
      buffer += tensor.bytes;
    }
  }

  std::string contestant_failure(bool is_good) const { return is_good ? "" : contestant_.failure(); }

  std::string meet() {
    const int missing = line_.meet(kMeetLimit);
    if (!line_.failure().empty()) {
      return line_.failure();
    }
    return missing < 0 ? ""
                       : "rank " + std::to_string(missing) + " did not come to the start line within " +
                             std::to_string(kMeetLimit.count()) + " s";
  }

  void tell(std::uint64_t bytes, std::uint64_t done, std::uint64_t calls) {
    constexpr double kEvery = 0.2;
    if (contestant_.rank() == 0 && events_.progress && seconds_since(told_) > kEvery) {
      told_ = SteadyClock::now();
      events_.progress(bytes, done, calls);
    }
  }

  const BenchOptions& options_;
  Contestant& contestant_;
  StartLine line_;
  const SweepEvents& events_;
  Expectation expectation_;
  Compute compute_;
  Tensors tensors_;
  bool is_last_ = false;
  SteadyClock::time_point told_ = SteadyClock::now();
};

}  // namespace

std::string measure(const BenchOptions& options, Contestant& contestant, StartLine line, const SweepEvents& events) {
  stay_on_own_core(contestant.rank(), contestant.size());
  if (contestant.rank() == 0) {
    events.begin(contestant.size());
  }
  Loop loop(options, contestant, line, events);
  if (!options.set.empty()) {
    return loop.measure("set",
                        tensor_bytes(tensor_set(options.set), bench_dtype_bytes(*parse_bench_dtype(options.dtype))));
  }
  const std::vector<std::uint64_t> sizes =
      options.op == BenchOp::barrier ? std::vector<std::uint64_t>{0} : options.bytes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (std::string failure = loop.measure(std::to_string(i), {sizes[i]}); !failure.empty()) {
      return failure;
    }
  }
  return "";
}

}  // namespace ronde::cli
