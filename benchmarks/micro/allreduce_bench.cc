// All-reduce over the shared memory of one host, below the engine: ranks are processes pinned to a core each, and what
// is timed is one regime of src/collectives/host.
//
//     allreduce_bench [--ranks=2] [--dtype=float32] [--forms=inline,direct] [--sizes=8,64K,16M] [--rounds=100]
//     [--offset=64]
//
// Forms: inline, staged, ordered, direct are buckets of replay; learn and learn_direct are operations of the learning
// lane; a name that ends in _out is out of place. `bound` is the reduction of a direct bucket without any waiting. Each
// rank rewrites its input before each call, as a backward pass does. Up to 4 KiB a thousand calls are timed together,
// rewriting included. A line per size and form: microseconds, median and 10th percentile over rounds of the slowest
// rank. Thresholds as everywhere from RONDE_TABLE.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cpu_relax.h"
#include "collectives/persistent/bucket.h"
#include "collectives/persistent/ordered_lane.h"
#include "collectives/shm/select.h"
#include "collectives/shm/shared_slice.h"
#include "collectives/tuning/table.h"
#include "transport/shm/testing/processes.h"

namespace {

using ronde::Bucket;
using ronde::DType;
using ronde::Plan;
using ronde::Progress;
using ronde::RequestTensor;
using ronde::Tensor;
using ronde::collectives::BucketKind;
using ronde::collectives::HostBucket;
using ronde::collectives::HostChannel;
using ronde::collectives::OrderedLane;
using ronde::collectives::SharedSlice;
using ronde::collectives::Table;
using ronde::collectives::Thresholds;
using ronde::transport::HostArena;
using ronde::transport::RegionLayout;

struct Options {
  int ranks = 2;
  int rounds = 0;  ///< 0: by size
  DType dtype = DType::float32;
  std::size_t offset = 64;  ///< of private tensors within a page, as allocators give them
  Thresholds thresholds;
  std::vector<std::string> forms = {"inline", "staged",    "ordered", "ordered_out",
                                    "learn",  "learn_out", "direct",  "bound"};
  std::vector<std::size_t> sizes = {8, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
};

// Where things lie in every rank's heap.
constexpr std::size_t kSharedAt = 0;  ///< in rank 0's
constexpr std::size_t kLineAt = 64 << 10;
constexpr std::size_t kLaneAt = 128 << 10;
constexpr std::size_t kSlotsAt = 16 << 20;
constexpr std::size_t kTensorAt = 32 << 20;

struct Shared {
  alignas(128) std::atomic<std::uint64_t> arrived{0};
  alignas(128) double microseconds[64] = {};
};

/// Waits as a waiter with a core of its own does, or yields where there are more ranks than cores.
template <typename Done>
void spin_until(bool has_own_core, Done&& done) {
  while (!done()) {
    if (has_own_core) {
      ronde::cpu_relax();
    } else {
      ::sched_yield();
    }
  }
}

class Rank {
 public:
  Rank(HostArena& arena, const Options& options)
      : arena_(arena),
        options_(options),
        shared_(*reinterpret_cast<Shared*>(arena.heap(0) + kSharedAt)),
        channel_(arena) {}

  bool run() {
    cpu_set_t all;
    ::sched_getaffinity(0, sizeof all, &all);
    has_own_core_ = CPU_COUNT(&all) >= options_.ranks;
    pin(all);
    const std::size_t largest = *std::max_element(options_.sizes.begin(), options_.sizes.end());
    if (!arena_.own_heap().commit(0, kTensorAt + largest).is_ok()) {
      return false;
    }
    input_ = allocate(largest);
    output_ = allocate(largest);
    source_ = allocate(largest);
    for (std::size_t i = 0; i < largest / ronde::dtype_bytes(options_.dtype); ++i) {
      set_one(source_ + i * ronde::dtype_bytes(options_.dtype));
    }
    barrier();
    arena_.prefault(0, kTensorAt + largest);
    lane_ = std::make_unique<OrderedLane>(arena_, kLaneAt, options_.thresholds);
    for (const std::size_t bytes : options_.sizes) {
      for (const std::string& form : options_.forms) {
        measure(form, bytes);
      }
    }
    return true;
  }

 private:
  std::byte* allocate(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    memory_.emplace_back(bytes + 2 * kPage);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.back().data());
    return memory_.back().data() + (kPage - address % kPage) + options_.offset;
  }

  void pin(const cpu_set_t& all) const {
    int skip = arena_.rank() % CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &all) && skip-- == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        ::sched_setaffinity(0, sizeof one, &one);
      }
    }
  }

  void set_one(std::byte* to) const {
    const float one = 1;
    const double wide = 1;
    const std::uint16_t float16 = 0x3c00;
    const std::uint16_t bfloat16 = 0x3f80;
    const std::int64_t integer = 1;
    const std::size_t bytes = ronde::dtype_bytes(options_.dtype);
    switch (options_.dtype) {
      case DType::float32: return static_cast<void>(std::memcpy(to, &one, bytes));
      case DType::float64: return static_cast<void>(std::memcpy(to, &wide, bytes));
      case DType::float16: return static_cast<void>(std::memcpy(to, &float16, bytes));
      case DType::bfloat16: return static_cast<void>(std::memcpy(to, &bfloat16, bytes));
      default: return static_cast<void>(std::memcpy(to, &integer, bytes));
    }
  }

  void barrier() {
    ++barriers_;
    shared_.arrived.fetch_add(1);
    spin_until(has_own_core_, [&] {
      return shared_.arrived.load(std::memory_order_acquire) >= barriers_ * static_cast<std::uint64_t>(options_.ranks);
    });
  }

  Tensor tensor(std::byte* data, std::size_t bytes) const {
    return {data, options_.dtype, {static_cast<std::int64_t>(bytes / ronde::dtype_bytes(options_.dtype))}, {}};
  }

  static BucketKind kind_of(const std::string& form) {
    return form.starts_with("inline")    ? BucketKind::inlined
           : form.starts_with("staged")  ? BucketKind::staged
           : form.starts_with("ordered") ? BucketKind::ordered
                                         : BucketKind::direct;
  }

  /// One call of the form, or an empty function if it cannot serve this size.
  std::function<void()> make(const std::string& form, std::size_t bytes, std::byte*& input) {
    const bool is_out = form.ends_with("_out");
    const bool is_shared = form == "direct" || form == "learn_direct" || form == "bound";
    input = is_shared ? arena_.heap(arena_.rank()) + kTensorAt : input_;
    std::byte* const output = is_out ? output_ : input;
    if (form.starts_with("learn")) {
      plan_ = Plan();
      plan_.dtype = options_.dtype;
      plan_.members.push_back(
          {"x", tensor(input, bytes), tensor(output, bytes), is_shared ? places() : ronde::MemoryPlaces()});
      return [this] {
        const auto operation = start(channel_, plan_, options_.thresholds);
        spin_until(has_own_core_, [&] { return advance(*operation); });
      };
    }
    if (form == "bound") {
      slice_ =
          std::make_unique<SharedSlice>(arena_, ronde::reduce::Reduction{options_.dtype, ronde::ReduceOp::sum, 1, 1},
                                        std::vector<ronde::collectives::SharedTensor>{{places(), bytes}});
      return [this] {
        slice_->restart();
        for (bool done = false; !done;) {
          ronde::collectives::Budget budget;
          done = slice_->advance(budget);
        }
      };
    }
    const BucketKind kind = kind_of(form);
    if ((kind == BucketKind::inlined && bytes > 56) || (kind == BucketKind::staged && bytes > (1 << 20))) {
      return {};
    }
    Bucket description;
    description.has_done_words = kind != BucketKind::inlined;
    description.layout = ronde::collectives::layout_text({kind, kLineAt, kSlotsAt});
    description.members.resize(1);
    description.members[0].descriptor.tensors = {{options_.dtype, tensor(input, bytes).shape}};
    description.members[0].places = places();
    bucket_ = make_bucket(arena_, description, options_.thresholds, lane_.get());
    bucket_->enter(1);
    const RequestTensor tensors[] = {{tensor(input, bytes), tensor(output, bytes)}};
    bucket_->bind(0, tensors);
    return [this] {
      bucket_->copy_in(0);
      bucket_->publish();
      spin_until(has_own_core_, [&] { return advance(*bucket_); });
    };
  }

  /// The tensor's, the same on all ranks.
  ronde::MemoryPlaces places() const {
    return ronde::MemoryPlaces(static_cast<std::size_t>(options_.ranks), static_cast<std::int64_t>(kTensorAt));
  }
  /// As long as something moves there is no pause.
  template <typename Machine>
  static bool advance(Machine& machine) {
    for (;;) {
      const Progress progress = machine.advance();
      if (progress != Progress::again) {
        return progress == Progress::done;
      }
    }
  }

  void measure(const std::string& form, std::size_t bytes) {
    std::byte* input = nullptr;
    const std::function<void()> call = make(form, bytes, input);
    barrier();
    if (!call) {
      return;
    }
    const int calls = bytes <= 4096 ? 1000 : 1;
    const int rounds = options_.rounds > 0 ? options_.rounds : bytes <= (1 << 20) ? 300 : bytes <= (16 << 20) ? 60 : 12;
    std::vector<double> slowest;
    const ronde::RealClock clock;
    for (int round = 0; round < rounds + 3; ++round) {
      std::memcpy(input, source_, bytes);
      barrier();
      const ronde::Nanoseconds begin = clock.now();
      for (int i = 0; i < calls; ++i) {
        if (calls > 1) {
          std::memcpy(input, source_, bytes);
        }
        call();
      }
      shared_.microseconds[arena_.rank()] = static_cast<double>(clock.now() - begin) / 1000 / calls;
      barrier();
      if (round >= 3) {
        slowest.push_back(*std::max_element(shared_.microseconds, shared_.microseconds + options_.ranks));
      }
      barrier();
    }
    if (arena_.rank() == 0) {
      std::sort(slowest.begin(), slowest.end());
      const double median = slowest[slowest.size() / 2];
      std::printf("%2d ranks %-9s %10zu B %-13s %11.2f us  p10 %11.2f  %7.2f GB/s\n", options_.ranks,
                  std::string(dtype_name(options_.dtype)).c_str(), bytes, form.c_str(), median,
                  slowest[slowest.size() / 10], static_cast<double>(bytes) / median / 1000);
      std::fflush(stdout);
    }
  }

  HostArena& arena_;
  const Options& options_;
  Shared& shared_;
  HostChannel channel_;
  std::unique_ptr<OrderedLane> lane_;
  std::unique_ptr<HostBucket> bucket_;
  std::unique_ptr<SharedSlice> slice_;
  Plan plan_;
  std::vector<std::vector<std::byte>> memory_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::byte* source_ = nullptr;
  std::uint64_t barriers_ = 0;
  bool has_own_core_ = true;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    parts.push_back(part);
  }
  return parts;
}

std::size_t parse_size(const std::string& text) {
  char* end = nullptr;
  const auto number = static_cast<std::size_t>(std::strtoull(text.c_str(), &end, 10));
  return *end == 'K' ? number << 10 : *end == 'M' ? number << 20 : number;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--ranks") {
      options.ranks = std::atoi(value.c_str());
    } else if (name == "--rounds") {
      options.rounds = std::atoi(value.c_str());
    } else if (name == "--offset") {
      options.offset = static_cast<std::size_t>(std::atoi(value.c_str()));
    } else if (name == "--forms") {
      options.forms = split(value);
    } else if (name == "--sizes") {
      options.sizes.clear();
      for (const std::string& each : split(value)) {
        options.sizes.push_back(parse_size(each));
      }
    } else if (name == "--dtype") {
      for (int number = 0; number < 15; ++number) {
        if (dtype_name(static_cast<DType>(number)) == value) {
          options.dtype = static_cast<DType>(number);
        }
      }
    } else {
      std::fprintf(stderr, "%s is not understood\n", argument.c_str());
      return false;
    }
  }
  return options.ranks >= 1 && options.ranks <= 64 && !options.sizes.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const ronde::Result<std::optional<Table>> table = Table::from_environment();
  if (!table || !parse(argc, argv, options)) {
    std::fprintf(stderr, "%s\n", table.status().message().c_str());
    return 2;
  }
  options.thresholds = table.value().value_or(Table::built_in()).of(options.ranks);
  const auto results = ronde::transport::run_processes(
      RegionLayout::for_size(options.ranks), [&](HostArena& arena) { return Rank(arena, options).run(); }, 600);
  return std::all_of(results.begin(), results.end(), [](int result) { return result == 0; }) ? 0 : 1;
}
