#include "cli/measuring/workload/options.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/measuring/workload/sizes.h"
#include "cli/measuring/workload/tensor_sets.h"

namespace ronde::cli {

namespace {

constexpr std::pair<std::string_view, BenchForm> kForms[] = {
    {"name", BenchForm::name}, {"slot", BenchForm::slot}, {"persistent", BenchForm::persistent}};
constexpr std::pair<std::string_view, SetMode> kModes[] = {
    {"async", SetMode::async}, {"blocking", SetMode::blocking}, {"flat", SetMode::flat}, {"packed", SetMode::packed}};

struct DType {
  std::string_view name;
  ronde_dtype number;
  std::size_t bytes;
};
constexpr DType kDTypes[] = {
    {"float32", RONDE_FLOAT32, 4},   {"float64", RONDE_FLOAT64, 8}, {"float16", RONDE_FLOAT16, 2},
    {"bfloat16", RONDE_BFLOAT16, 2}, {"int32", RONDE_INT32, 4},     {"int64", RONDE_INT64, 8},
    {"int16", RONDE_INT16, 2},       {"int8", RONDE_INT8, 1},       {"uint8", RONDE_UINT8, 1},
    {"uint16", RONDE_UINT16, 2},     {"uint32", RONDE_UINT32, 4},   {"uint64", RONDE_UINT64, 8}};

template <typename Value, std::size_t kCount>
std::optional<Value> value_of(const std::pair<std::string_view, Value> (&table)[kCount], std::string_view text) {
  for (const auto& [name, value] : table) {
    if (name == text) {
      return value;
    }
  }
  return std::nullopt;
}

template <typename Value, std::size_t kCount>
std::string_view name_of(const std::pair<std::string_view, Value> (&table)[kCount], Value wanted) {
  for (const auto& [name, value] : table) {
    if (value == wanted) {
      return name;
    }
  }
  return "unknown";
}

/// What can be wrong with a set and what goes with it.
std::string check_set(const BenchOptions& options) {
  if (options.set.empty()) {
    if (options.mode != SetMode::async) {
      return "--mode is for a set of tensors: add --gradients or --many";
    }
    return options.overlap_us == 0 ? "" : "--overlap is for a set of tensors: add --gradients or --many";
  }
  if (options.op != BenchOp::allreduce && options.op != BenchOp::broadcast) {
    return "a set of tensors is reduced or broadcast: use allreduce or broadcast";
  }
  if (!options.plot.empty()) {
    return "--plot shows time over size: it is for a sweep with --bytes, not for a set of tensors";
  }
  const bool one_by_one = options.mode == SetMode::async || options.mode == SetMode::blocking;
  if (options.overlap_us != 0 && !one_by_one) {
    return "--overlap computes before each tensor: it goes with --mode async or blocking";
  }
  const TensorSet set = tensor_set(options.set);
  const std::optional<ronde_dtype> dtype = parse_bench_dtype(options.dtype);
  if (set.failure.empty() && dtype && set.bytes_each % bench_dtype_bytes(*dtype) != 0) {
    return "a tensor of " + size_text(set.bytes_each) + " bytes is no multiple of " +
           std::to_string(bench_dtype_bytes(*dtype)) + ", the size of " + options.dtype;
  }
  return set.failure;
}

}  // namespace

std::optional<BenchForm> parse_bench_form(std::string_view text) { return value_of(kForms, text); }
std::string_view bench_form_name(BenchForm form) { return name_of(kForms, form); }
std::optional<SetMode> parse_set_mode(std::string_view text) { return value_of(kModes, text); }
std::string_view set_mode_name(SetMode mode) { return name_of(kModes, mode); }

const std::vector<std::string>& bench_dtype_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const DType& dtype : kDTypes) {
      list.emplace_back(dtype.name);
    }
    return list;
  }();
  return names;
}

std::optional<ronde_dtype> parse_bench_dtype(std::string_view text) {
  for (const DType& dtype : kDTypes) {
    if (dtype.name == text) {
      return dtype.number;
    }
  }
  return std::nullopt;
}

std::size_t bench_dtype_bytes(ronde_dtype dtype) {
  for (const DType& each : kDTypes) {
    if (each.number == dtype) {
      return each.bytes;
    }
  }
  return 0;
}

std::string check_options(const BenchOptions& options) {
  if (std::string wrong = check_set(options); !wrong.empty()) {
    return wrong;
  }
  if (options.op == BenchOp::barrier) {
    if (!options.plot.empty()) {
      return "a barrier has no size, so there is nothing to plot";
    }
    if (options.shared) {
      return "a barrier has no tensors, so none in shared memory";
    }
    return options.in_place ? "a barrier has no tensors, so none in place" : "";
  }
  const std::string maker = std::string(bench_op_name(options.op)) + " makes its output itself";
  if (makes_output(options.op) && options.in_place) {
    return maker + ": it cannot be in place";
  }
  if (makes_output(options.op) && options.form == BenchForm::persistent) {
    return maker + ", which a persistent plan cannot hand out: use --form name or slot";
  }
  const std::optional<ronde_dtype> dtype = parse_bench_dtype(options.dtype);
  if (!dtype) {
    return "unknown type " + options.dtype;
  }
  const std::size_t element = bench_dtype_bytes(*dtype);
  for (std::uint64_t bytes : options.bytes) {
    if (bytes % element != 0) {
      return "--bytes " + size_text(bytes) + " is no multiple of " + std::to_string(element) + ", the size of " +
             options.dtype;
    }
  }
  return "";
}

std::vector<std::string> to_arguments(const BenchOptions& options) {
  std::vector<std::string> words{"bench",   std::string(bench_op_name(options.op)),
                                 "--form",  std::string(bench_form_name(options.form)),
                                 "--dtype", options.dtype};
  if (!options.set.empty()) {
    words.insert(words.end(), {is_many(options.set) ? "--many" : "--gradients", options.set, "--mode",
                               std::string(set_mode_name(options.mode))});
  }
  std::string sizes;
  for (std::uint64_t bytes : options.bytes) {
    sizes += (sizes.empty() ? "" : ",") + size_text(bytes);
  }
  if (!sizes.empty()) {
    words.insert(words.end(), {"--bytes", sizes});
  }
  if (options.iterations != 0) {
    words.insert(words.end(), {"--iterations", std::to_string(options.iterations)});
  }
  for (const auto& [value, word] :
       {std::pair{options.seconds, "--seconds"}, std::pair{options.overlap_us, "--overlap"}}) {
    if (value != 0) {
      words.insert(words.end(), {word, std::to_string(value)});
    }
  }
  if (!options.plot.empty()) {
    words.insert(words.end(), {"--plot", options.plot});
  }
  for (const auto& [is_set, word] : {std::pair{options.in_place, "--in-place"}, std::pair{options.shared, "--shared"},
                                     std::pair{options.json, "--json"}, std::pair{options.progress, "--progress"}}) {
    if (is_set) {
      words.emplace_back(word);
    }
  }
  return words;
}

std::uint64_t iterations_for(std::uint64_t bytes) {
  constexpr std::uint64_t kAtMost = 2000;
  constexpr std::uint64_t kAtLeast = 20;
  constexpr std::uint64_t kBytesInAll = std::uint64_t{512} << 20;
  return std::clamp(kBytesInAll / std::max<std::uint64_t>(bytes, 1), kAtLeast, kAtMost);
}

std::uint64_t warm_up_for(std::uint64_t iterations) { return std::clamp<std::uint64_t>(iterations / 10, 2, 100); }

}  // namespace ronde::cli
