#include "cli/bench/options.h"

#include <algorithm>
#include <utility>

#include "cli/bench/sizes.h"

namespace ronde::cli {

namespace {

constexpr std::pair<std::string_view, BenchOp> kOps[] = {{"allreduce", BenchOp::allreduce},
                                                         {"broadcast", BenchOp::broadcast},
                                                         {"allgather", BenchOp::allgather},
                                                         {"barrier", BenchOp::barrier}};

constexpr std::pair<std::string_view, ronde_dtype> kDTypes[] = {
    {"float32", RONDE_FLOAT32},   {"float64", RONDE_FLOAT64}, {"float16", RONDE_FLOAT16},
    {"bfloat16", RONDE_BFLOAT16}, {"int32", RONDE_INT32},     {"int64", RONDE_INT64},
    {"int16", RONDE_INT16},       {"int8", RONDE_INT8},       {"uint8", RONDE_UINT8}};

}  // namespace

std::optional<BenchOp> parse_bench_op(std::string_view text) {
  for (const auto& [name, op] : kOps) {
    if (name == text) {
      return op;
    }
  }
  return std::nullopt;
}

std::string_view bench_op_name(BenchOp op) {
  for (const auto& [name, candidate] : kOps) {
    if (candidate == op) {
      return name;
    }
  }
  return "unknown";
}

std::string_view bench_form_name(BenchForm form) { return form == BenchForm::slot ? "slot" : "name"; }

const std::vector<std::string>& bench_dtype_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& [name, dtype] : kDTypes) {
      list.emplace_back(name);
    }
    return list;
  }();
  return names;
}

std::optional<ronde_dtype> parse_bench_dtype(std::string_view text) {
  for (const auto& [name, dtype] : kDTypes) {
    if (name == text) {
      return dtype;
    }
  }
  return std::nullopt;
}

std::string check_options(const BenchOptions& options) {
  const std::string op(bench_op_name(options.op));
  if (options.op == BenchOp::barrier) {
    return options.in_place ? "a barrier has no tensors, so none in place" : "";
  }
  if (options.op == BenchOp::allgather && options.in_place) {
    return "allgather makes its output itself: it cannot be in place";
  }
  const std::optional<ronde_dtype> dtype = parse_bench_dtype(options.dtype);
  if (!dtype) {
    return "unknown type " + options.dtype;
  }
  const std::size_t element = ronde_dtype_bytes(*dtype);
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
  for (const auto& [is_set, word] : {std::pair{options.in_place, "--in-place"}, std::pair{options.json, "--json"},
                                     std::pair{options.progress, "--progress"}}) {
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
