// How near the reduction kernels come to what the memory system gives: every kernel beside memcpy and a triad, with
// working sets that lie in L1, in L2 and beyond.
//
// bytes_per_second counts what an element needs once: each input read, each output written (memcpy: 2 bytes moved per
// byte copied; triad a = b + c: 3). Caches also read what is about to be overwritten; that is not counted, for nobody.
//
// Names are reduce/<type>/<op>/p<ranks>/<bytes of one input>[/level:...|/two_outputs|/scaled]; without a level the
// current one is measured (RONDE_CPU_LEVEL).
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "reduce/reduce.h"

namespace {

using ronde::DType;
using ronde::ReduceOp;
using ronde::reduce::Reduction;

/// Memory that starts at a page and holds small positive numbers of any type, so that no kernel meets subnormals.
class Buffer {
 public:
  Buffer(std::size_t bytes, DType dtype) : memory_(bytes + kPage) {
    void* at = memory_.data();
    std::size_t space = memory_.size();
    data_ = static_cast<std::byte*>(std::align(kPage, bytes, at, space));
    const std::size_t element = ronde::dtype_bytes(dtype);
    for (std::size_t i = 0; i < bytes / element; ++i) {
      std::memcpy(data_ + i * element, one(dtype), element);
    }
  }
  std::byte* data() { return data_; }

 private:
  static constexpr std::size_t kPage = 4096;

  static const void* one(DType dtype) {
    static const float float32 = 1;
    static const double float64 = 1;
    static const std::uint16_t float16 = 0x3c00;
    static const std::uint16_t bfloat16 = 0x3f80;
    static const std::uint8_t e4m3 = 0x38;
    static const std::uint8_t e5m2 = 0x3c;
    static const std::int64_t integer = 1;
    switch (dtype) {
      case DType::float32: return &float32;
      case DType::float64: return &float64;
      case DType::float16: return &float16;
      case DType::bfloat16: return &bfloat16;
      case DType::float8_e4m3: return &e4m3;
      case DType::float8_e5m2: return &e5m2;
      default: return &integer;
    }
  }

  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
};

struct Case {
  Reduction reduction;
  std::size_t ranks = 2;
  std::size_t bytes = 0;
  bool has_two_outputs = false;
  std::string level;
};

void run_reduce(benchmark::State& state, const Case& c) {
  std::vector<Buffer> inputs;
  std::vector<const void*> pointers;
  for (std::size_t r = 0; r < c.ranks; ++r) {
    inputs.emplace_back(c.bytes, c.reduction.dtype);
    pointers.push_back(inputs.back().data());
  }
  Buffer output(c.bytes, c.reduction.dtype);
  Buffer second(c.has_two_outputs ? c.bytes : 1, DType::uint8);
  const std::size_t count = c.bytes / ronde::dtype_bytes(c.reduction.dtype);
  for (auto _ : state) {
    ronde::reduce::reduce_at(c.level, c.reduction, pointers, count, output.data(),
                             c.has_two_outputs ? second.data() : nullptr);
    benchmark::ClobberMemory();
  }
  const std::size_t streams = c.ranks + (c.has_two_outputs ? 2 : 1);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * streams * c.bytes));
}

void run_memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Buffer from(bytes, DType::float32);
  Buffer to(bytes, DType::float32);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * 2 * bytes));
}

void run_triad(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Buffer first(bytes, DType::float32);
  Buffer second(bytes, DType::float32);
  Buffer to(bytes, DType::float32);
  const auto* a = reinterpret_cast<const float*>(first.data());
  const auto* b = reinterpret_cast<const float*>(second.data());
  auto* c = reinterpret_cast<float*>(to.data());
  for (auto _ : state) {
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i) {
      c[i] = a[i] + b[i];
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * 3 * bytes));
}

void add(const Case& c) {
  std::string name = "reduce/" + std::string(dtype_name(c.reduction.dtype)) + "/" +
                     std::string(reduce_op_name(c.reduction.op)) + "/p" + std::to_string(c.ranks) + "/" +
                     std::to_string(c.bytes);
  name += c.reduction.prescale != 1 ? "/scaled" : "";
  name += c.has_two_outputs ? "/two_outputs" : "";
  name += c.level == ronde::reduce::level() ? "" : "/level:" + c.level;
  benchmark::RegisterBenchmark(name.c_str(), run_reduce, c);
}

// One input each: with two of them and an output in a 48 KiB L1, in a 2 MiB L2, in neither.
constexpr std::size_t kSizes[] = {8 << 10, 512 << 10, 32 << 20};

void add_all() {
  for (std::size_t bytes : kSizes) {
    benchmark::RegisterBenchmark("memcpy", run_memcpy)->Arg(static_cast<std::int64_t>(bytes));
    benchmark::RegisterBenchmark("triad", run_triad)->Arg(static_cast<std::int64_t>(bytes));
  }
  const std::string level(ronde::reduce::level());
  const auto all_sizes = [](Case c) {
    for (std::size_t bytes : kSizes) {
      c.bytes = bytes;
      add(c);
    }
  };
  for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int32, DType::int64,
                      DType::uint8, DType::int8, DType::int16, DType::float8_e4m3, DType::float8_e5m2}) {
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::product}) {
      all_sizes({.reduction = {.dtype = dtype, .op = op}, .level = level});
    }
    for (std::size_t ranks : {3u, 4u, 5u, 8u}) {
      all_sizes({.reduction = {.dtype = dtype, .op = ReduceOp::sum}, .ranks = ranks, .level = level});
    }
    all_sizes({.reduction = {.dtype = dtype, .op = ReduceOp::sum, .prescale = 0.5}, .level = level});
    all_sizes({.reduction = {.dtype = dtype, .op = ReduceOp::sum}, .has_two_outputs = true, .level = level});
    for (std::string_view other : ronde::reduce::levels()) {
      if (other != level) {
        all_sizes({.reduction = {.dtype = dtype, .op = ReduceOp::sum}, .level = std::string(other)});
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
