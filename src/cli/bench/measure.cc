#include "cli/bench/measure.h"

#include <ronde/ronde.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cli/bench/caller.h"
#include "cli/bench/pattern.h"
#include "cli/bench/start_line.h"

namespace ronde::cli {

namespace {

using SteadyClock = std::chrono::steady_clock;

/// How long ranks may be apart at the start line: verifying the largest tensors takes them unequally long.
constexpr std::chrono::seconds kMeetLimit{120};

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

double seconds_between(SteadyClock::time_point from, SteadyClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Page-aligned memory without values: std::vector would write it, and the first touch should be the pattern's.
struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;
Memory allocate(std::uint64_t bytes) {
  constexpr std::size_t kPage = 4096;
  return Memory(std::aligned_alloc(kPage, (bytes / kPage + 1) * kPage));
}

std::string last_error(const std::string& what) { return what + ": " + ronde_last_error(); }

/// The engine between init and shutdown, and this rank's place.
class Membership {
 public:
  Membership() = default;
  ~Membership() { ronde_shutdown(); }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  std::string join() {
    topology_.struct_size = sizeof topology_;
    if (ronde_init(nullptr) != RONDE_OK || ronde_get_topology(nullptr, &topology_) != RONDE_OK) {
      return last_error("joining the job");
    }
    return topology_.local_size == topology_.size ? "" : "the ranks of a measurement must be on one host";
  }
  int rank() const { return topology_.rank; }
  int size() const { return topology_.size; }

 private:
  ronde_topology topology_ = {};
};

ronde_status execute(ronde_op op, const char* name, std::size_t name_bytes, const ronde_tensor* tensor) {
  ronde_request request = {};
  request.struct_size = sizeof request;
  request.op = op;
  request.name = name;
  request.name_bytes = name_bytes;
  request.inputs = tensor;
  request.outputs = tensor;
  request.count = tensor == nullptr ? 0 : 1;
  request.step = -1;
  return ronde_execute(nullptr, &request, -1, nullptr);
}

/// Rank 0 makes the pages of the start line and tells the others where they are; collective.
class StartLinePages {
 public:
  std::string share(const Membership& membership) {
    constexpr std::string_view kWhere = "bench.start_line";
    constexpr std::string_view kMapped = "bench.start_line.mapped";
    const std::size_t bytes = sizeof(StartLineEntry) * static_cast<std::size_t>(membership.size());
    std::int64_t where[2] = {-1, -1};
    if (membership.rank() == 0) {
      pages_ = std::make_unique<SharedPages>(SharedPages::create(bytes));
      where[0] = getpid();
      where[1] = pages_->descriptor();
    }
    const std::int64_t count = 2;
    const ronde_tensor tensor = {sizeof tensor, where, &count, 1, RONDE_INT64, RONDE_HOST, 0};
    if (execute(RONDE_BROADCAST, kWhere.data(), kWhere.size(), &tensor) != RONDE_OK) {
      return last_error("sharing the start line");
    }
    if (membership.rank() != 0) {
      pages_ = std::make_unique<SharedPages>(SharedPages::open(where[0], where[1], bytes));
    }
    // Rank 0 has the descriptor open until all have mapped it.
    if (execute(RONDE_BARRIER, kMapped.data(), kMapped.size(), nullptr) != RONDE_OK) {
      return last_error("sharing the start line");
    }
    return pages_->is_mapped() ? "" : "the start line's shared memory cannot be mapped";
  }
  StartLineEntry* entries() { return static_cast<StartLineEntry*>(pages_->data()); }

 private:
  std::unique_ptr<SharedPages> pages_;
};

/// What each rank sends, and what it must then have.
struct Expectation {
  Expectation(const BenchOptions& options, int rank, int size)
      : dtype(*parse_bench_dtype(options.dtype)), input(input_pattern(dtype, rank)) {
    switch (options.op) {
      case BenchOp::allreduce: results.push_back(sum_pattern(dtype, size)); break;
      case BenchOp::broadcast: results.push_back(input_pattern(dtype, 0)); break;
      case BenchOp::allgather:
        for (int other = 0; other < size; ++other) {
          results.push_back(input_pattern(dtype, other));
        }
        break;
      case BenchOp::barrier: break;
    }
  }

  /// The first wrong element of results that lie one after the other.
  std::string check(const void* data, std::uint64_t bytes, std::uint64_t call) const {
    for (std::size_t part = 0; part < results.size(); ++part) {
      const auto* const begin = static_cast<const std::byte*>(data) + part * bytes;
      if (const auto wrong = results[part].first_difference(begin, bytes, call)) {
        return "wrong result of call " + std::to_string(call) + " on " + std::to_string(bytes) + " bytes, element " +
               std::to_string(part * (bytes / ronde_dtype_bytes(dtype)) + *wrong);
      }
    }
    return "";
  }

  ronde_dtype dtype;
  Pattern input;
  std::vector<Pattern> results;
};

class Sweep {
 public:
  Sweep(const BenchOptions& options, const SweepEvents& events, const Membership& membership, StartLine line)
      : options_(options),
        events_(events),
        rank_(membership.rank()),
        size_(membership.size()),
        line_(line),
        expectation_(options, rank_, size_) {}

  /// All calls of one size.
  std::string measure(std::uint64_t bytes) {
    const std::uint64_t iterations = options_.iterations != 0 ? options_.iterations : iterations_for(bytes);
    const std::uint64_t warm_up = warm_up_for(iterations);
    const Memory input = allocate(bytes);
    const Memory output = options_.in_place ? nullptr : allocate(bytes);
    if (input == nullptr || (output == nullptr && !options_.in_place)) {
      return "no memory for tensors of " + std::to_string(bytes) + " bytes";
    }
    Caller caller(options_, bytes, input.get(), options_.in_place ? input.get() : output.get());
    if (caller.start() != RONDE_OK) {
      return last_error("registering the slot");
    }
    std::vector<double> seconds;
    for (std::uint64_t call = 0; call < warm_up + iterations; ++call) {
      expectation_.input.fill(input.get(), bytes, call);
      caller.prepare();
      std::string failure = one_call(caller, bytes, call);
      if (!failure.empty()) {
        return failure;
      }
      if (call >= warm_up) {
        seconds.push_back(line_.longest_seconds());
      }
      tell(bytes, call + 1, warm_up + iterations);
    }
    if (rank_ == 0) {
      events_.measured(size_, {.bytes = bytes, .calls = iterations, .summary = summarize(std::move(seconds))});
    }
    return "";
  }

 private:
  std::string one_call(Caller& caller, std::uint64_t bytes, std::uint64_t call) {
    std::string failure = meet();
    if (!failure.empty()) {
      return failure;
    }
    const auto begin = SteadyClock::now();
    const ronde_status status = caller.call();
    const auto end = SteadyClock::now();
    if (status != RONDE_OK) {
      failure = last_error(std::string(bench_op_name(options_.op)));
    } else {
      failure = expectation_.check(caller.result(), bytes, call);
    }
    line_.own().seconds = seconds_between(begin, end);
    line_.own().has_failed = failure.empty() ? 0 : 1;
    const std::string apart = meet();
    if (failure.empty() && apart.empty() && line_.any_failed()) {
      return "another rank failed";
    }
    return failure.empty() ? apart : failure;
  }

  std::string meet() {
    const int missing = line_.meet(kMeetLimit);
    return missing < 0 ? ""
                       : "rank " + std::to_string(missing) + " did not come to the start line within " +
                             std::to_string(kMeetLimit.count()) + " s";
  }

  void tell(std::uint64_t bytes, std::uint64_t done, std::uint64_t calls) {
    constexpr double kEvery = 0.2;
    const auto now = SteadyClock::now();
    if (rank_ == 0 && events_.progress && seconds_between(told_, now) > kEvery) {
      told_ = now;
      events_.progress(bytes, done, calls);
    }
  }

  const BenchOptions& options_;
  const SweepEvents& events_;
  int rank_;
  int size_;
  StartLine line_;
  Expectation expectation_;
  SteadyClock::time_point told_ = SteadyClock::now();
};

std::string sweep(const BenchOptions& options, const SweepEvents& events) {
  Membership membership;
  if (std::string failure = membership.join(); !failure.empty()) {
    return failure;
  }
  StartLinePages pages;
  if (std::string failure = pages.share(membership); !failure.empty()) {
    return failure;
  }
  const bool may_spin = membership.size() <= usable_cores();
  const StartLine line(pages.entries(), membership.rank(), membership.size(), may_spin);
  if (membership.rank() == 0) {
    events.begin(membership.size());
  }
  Sweep all(options, events, membership, line);
  for (std::uint64_t bytes : options.op == BenchOp::barrier ? std::vector<std::uint64_t>{0} : options.bytes) {
    if (std::string failure = all.measure(bytes); !failure.empty()) {
      return failure;
    }
  }
  return "";
}

}  // namespace

std::string run_sweep(const BenchOptions& options, const SweepEvents& events) {
  const std::string failure = sweep(options, events);
  const char* const rank = std::getenv("RONDE_RANK");
  return failure.empty() || rank == nullptr ? failure : "rank " + std::string(rank) + ": " + failure;
}

}  // namespace ronde::cli
