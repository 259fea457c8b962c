// For tests: collectives as values. A Job holds one plan per rank with memory of its own and knows what must come out.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "reduce/half.h"
#include "reduce/neutral.h"
#include "reduce/reduce.h"
#include "types/plan.h"
#include "types/request.h"

namespace ronde::collectives {

/// Bytes between two guards, at an odd element so that nothing relies on more alignment than the type has.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t element)
      : bytes_(bytes), offset_(kGuard + element), memory_(bytes + offset_ + kGuard, kPoison) {}
  std::byte* data() { return memory_.data() + offset_; }
  std::size_t bytes() const { return bytes_; }
  const std::byte* data() const { return memory_.data() + offset_; }
  std::vector<std::byte> content() const { return {data(), data() + bytes_}; }
  /// The first byte that differs, -1 if none does.
  std::ptrdiff_t difference(const std::vector<std::byte>& expected) const {
    if (expected.empty() || std::memcmp(data(), expected.data(), expected.size()) == 0) {
      return -1;
    }
    return std::mismatch(expected.begin(), expected.end(), data()).first - expected.begin();
  }
  bool guards_untouched() const {
    const auto poisoned = [](std::byte each) { return each == kPoison; };
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(offset_);
    return std::all_of(memory_.begin(), begin, poisoned) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), poisoned);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kPoison{0xa5};
  std::size_t bytes_;
  std::size_t offset_;
  std::vector<std::byte> memory_;
};

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Arbitrary bits that are a finite number of moderate size in every type, so that no sum meets two NaNs. They repeat
/// after kPeriod elements, which divides no size of a slot or slice, since making them is slow under the sanitizers.
inline void fill(DType dtype, std::byte* to, std::size_t bytes, std::uint64_t seed) {
  const auto put_all = [&](auto mask, auto exponent_one, unsigned low, unsigned count) {
    using Bits = decltype(mask);
    constexpr std::size_t kPeriod = 1021 * sizeof(Bits);
    for (std::size_t i = 0; i < std::min(bytes, kPeriod) / sizeof(Bits); ++i) {
      const std::uint64_t random = mix(seed + i);
      const auto bits = static_cast<Bits>((random & mask) | (exponent_one * (low + (random >> 40) % count)));
      std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
    }
    for (std::size_t at = kPeriod; at < bytes; at += kPeriod) {
      std::memcpy(to + at, to, std::min(kPeriod, bytes - at));
    }
  };
  switch (dtype) {
    case DType::float16: return put_all(std::uint16_t{0x83ff}, std::uint64_t{1} << 10, 10, 8);
    case DType::bfloat16: return put_all(std::uint16_t{0x807f}, std::uint64_t{1} << 7, 120, 12);
    case DType::float32:
    case DType::complex64: return put_all(std::uint32_t{0x807fffff}, std::uint64_t{1} << 23, 120, 12);
    case DType::float64:
    case DType::complex128: return put_all(std::uint64_t{0x800fffffffffffff}, std::uint64_t{1} << 52, 1015, 12);
    case DType::float8_e4m3: return put_all(std::uint8_t{0xb7}, std::uint64_t{0}, 0, 1);
    case DType::float8_e5m2: return put_all(std::uint8_t{0xbf}, std::uint64_t{0}, 0, 1);
    case DType::boolean: return put_all(std::uint8_t{0x01}, std::uint64_t{0}, 0, 1);
    default: return put_all(std::uint8_t{0xff}, std::uint64_t{0}, 0, 1);
  }
}

/// Numbers from -8 to 7, whose sums are the same in any order. Requires: float16 or float32.
inline void fill_with_small_integers(DType dtype, std::byte* to, std::size_t bytes, std::uint64_t seed) {
  const std::size_t element = dtype_bytes(dtype);
  for (std::size_t i = 0; i < bytes / element; ++i) {
    const auto value = static_cast<float>(static_cast<int>(mix(seed + i) % 16) - 8);
    const std::uint16_t narrow = reduce::narrow_float16(value);
    std::memcpy(to + i * element, dtype == DType::float32 ? static_cast<const void*>(&value) : &narrow, element);
  }
}

struct Job {
  std::vector<Plan> plans;                                         ///< one per rank
  std::vector<std::vector<Buffer>> inputs;                         ///< rank x member; empty where in place
  std::vector<std::vector<Buffer>> outputs;                        ///< rank x member
  std::vector<std::vector<std::vector<std::byte>>> input_content;  ///< before the run, rank x member
  std::vector<std::vector<std::vector<std::byte>>> expected;       ///< rank x member; a single one is every rank's

  const std::vector<std::vector<std::byte>>& expected_of(std::size_t rank) const {
    return expected[expected.size() == 1 ? 0 : rank];
  }

  /// Empty if all is as it must be, else what is wrong on `rank`.
  std::string wrong(std::size_t rank) const {
    for (std::size_t member = 0; member < expected_of(rank).size(); ++member) {
      const std::vector<std::byte>& content = expected_of(rank)[member];
      const std::string where = " of member " + std::to_string(member) + " on rank " + std::to_string(rank);
      const std::ptrdiff_t different = outputs[rank][member].difference(content);
      if (different >= 0) {
        return "byte " + std::to_string(different) + " of " + std::to_string(content.size()) + where + " is wrong";
      }
      if (!outputs[rank][member].guards_untouched()) {
        return "memory around the output" + where + " was written";
      }
      if (!inputs[rank].empty() && (inputs[rank][member].difference(input_content[rank][member]) >= 0 ||
                                    !inputs[rank][member].guards_untouched())) {
        return "the input" + where + " was written";
      }
    }
    return {};
  }
};

struct JobSpec {
  OpKind kind = OpKind::allreduce;
  int size = 2;
  DType dtype = DType::float32;
  ReduceOp reduce_op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  int root = 0;
  bool in_place = false;
  std::vector<std::int64_t> elements;           ///< of each member; where there are rows, of one
  std::vector<std::vector<std::int64_t>> rows;  ///< as Plan has them
  std::uint64_t seed = 1;
  std::vector<int> first_of = {};  ///< by rank, the lowest of its host; empty: no hosts
  bool any_order = false;          ///< floats have the same sum in any order: small integers
};

/// The ranks' parts of rows are handed over, or reduced.
inline bool cuts_rows(OpKind kind) { return kind == OpKind::reducescatter || has_rows_for_pairs(kind); }
inline bool is_scan(OpKind kind) { return kind == OpKind::scan || kind == OpKind::exscan; }
inline bool gives_each_rank_its_own(OpKind kind) { return cuts_rows(kind) || is_scan(kind) || kind == OpKind::reduce; }

/// How many rows `from` has for `to`, of member m.
inline std::int64_t rows_between(const JobSpec& spec, std::size_t member, std::size_t from, std::size_t to) {
  const auto ranks = static_cast<std::size_t>(spec.size);
  return has_rows_for_pairs(spec.kind) ? spec.rows[member][from * ranks + to] : spec.rows[member][to];
}

/// An all-reduce, reduce or reduce-scatter in hosts first, and then between; nothing where all ranks are reduced in
/// order, as in an all-reduce the ranks of two hosts are, one host after the other, where partial results are not
/// rounded more than the accumulator is.
inline std::vector<std::byte> expected_by_hosts(const JobSpec& spec,
                                                const std::vector<std::vector<std::byte>>& inputs) {
  const bool averages = spec.reduce_op == ReduceOp::average;
  const bool adds = averages || spec.reduce_op == ReduceOp::sum;
  const bool is_small = spec.dtype == DType::float8_e4m3 || spec.dtype == DType::float8_e5m2;
  const bool is_scaled = spec.prescale != 1.0 || spec.postscale != 1.0;
  std::vector<int> firsts = spec.first_of;
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  const bool is_narrow = spec.dtype == DType::float16 || spec.dtype == DType::bfloat16;
  const bool is_in_order = std::is_sorted(spec.first_of.begin(), spec.first_of.end());
  const bool is_chain = spec.kind == OpKind::allreduce && firsts.size() == 2 && is_in_order && !is_narrow;
  const bool goes_by_hosts =
      spec.kind == OpKind::allreduce || spec.kind == OpKind::reducescatter || spec.kind == OpKind::reduce;
  if (!goes_by_hosts || firsts.size() < 2 || firsts.size() == inputs.size() || is_small || is_chain ||
      (is_integer(spec.dtype) && (averages || is_scaled)) || (spec.dtype == DType::float16 && is_scaled && !adds)) {
    return {};
  }
  const std::size_t count = inputs[0].size() / dtype_bytes(spec.dtype);
  const bool scales_first = adds && spec.dtype == DType::float16;  // and divides
  const double in_host = scales_first ? spec.postscale : 1.0;
  const reduce::DefaultArithmetic arithmetic;
  std::vector<std::vector<std::byte>> sums;
  std::vector<const void*> pointers_to_sums;
  for (const int first : firsts) {
    std::vector<const void*> pointers;
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      if (spec.first_of[rank] == first) {
        pointers.push_back(inputs[rank].data());
      }
    }
    const ReduceOp op = averages && !scales_first ? ReduceOp::sum : spec.reduce_op;
    sums.emplace_back(inputs[0].size());
    reduce::Reducer({spec.dtype, op, spec.prescale, in_host}, pointers.size(),
                    averages && scales_first ? inputs.size() : 0)(arithmetic, pointers.data(), count,
                                                                  sums.back().data());
    pointers_to_sums.push_back(sums.back().data());
  }
  std::vector<std::byte> output(inputs[0].size());
  reduce::Reducer({spec.dtype, scales_first ? ReduceOp::sum : spec.reduce_op, 1.0, scales_first ? 1.0 : spec.postscale},
                  sums.size(), averages && !scales_first ? inputs.size() : 0)(arithmetic, pointers_to_sums.data(),
                                                                              count, output.data());
  return output;
}

/// What these inputs must give for one member on `rank`.
inline std::vector<std::byte> expected_output(const JobSpec& spec, const std::vector<std::vector<std::byte>>& inputs,
                                              std::size_t rank, std::size_t member) {
  const auto part_bytes = [&](std::size_t from, std::size_t to) {
    return static_cast<std::size_t>(rows_between(spec, member, from, to) * spec.elements[member]) *
           dtype_bytes(spec.dtype);
  };
  const auto part_of = [&](const std::vector<std::byte>& all, std::size_t from) {
    std::size_t begin = 0;
    for (std::size_t to = 0; to < rank; ++to) {
      begin += part_bytes(from, to);
    }
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    return std::vector<std::byte>(first, first + static_cast<std::ptrdiff_t>(part_bytes(from, rank)));
  };
  if (has_rows_for_pairs(spec.kind)) {
    std::vector<std::byte> all;
    for (std::size_t from = 0; from < inputs.size(); ++from) {
      const std::vector<std::byte> part = part_of(inputs[from], from);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  if (spec.kind == OpKind::broadcast) {
    return inputs[static_cast<std::size_t>(spec.root)];
  }
  if (spec.kind == OpKind::allgather) {
    std::vector<std::byte> all;
    for (const auto& each : inputs) {
      all.insert(all.end(), each.begin(), each.end());
    }
    return all;
  }
  if (std::vector<std::byte> by_hosts = expected_by_hosts(spec, inputs); !by_hosts.empty()) {
    return spec.kind == OpKind::reducescatter ? part_of(by_hosts, 0) : by_hosts;
  }
  std::vector<const void*> pointers;
  const std::size_t counted = is_scan(spec.kind) ? rank + (spec.kind == OpKind::scan ? 1 : 0) : inputs.size();
  for (std::size_t each = 0; each < counted; ++each) {
    pointers.push_back(inputs[each].data());
  }
  std::vector<std::byte> output(inputs[0].size());
  if (pointers.empty()) {
    reduce::fill_empty(spec.dtype, spec.reduce_op, output);
    return output;
  }
  reduce::reduce({spec.dtype, spec.reduce_op, spec.prescale, spec.postscale}, pointers,
                 output.size() / dtype_bytes(spec.dtype), output.data());
  return spec.kind == OpKind::reducescatter ? part_of(output, 0) : output;
}

/// The member's tensors of one rank; in place the input lies in the output, of an allgather in its place there.
inline void add_member(const JobSpec& spec, Job& job, std::size_t rank, std::size_t member) {
  const std::size_t element = dtype_bytes(spec.dtype);
  const bool gathers = spec.kind == OpKind::allgather;
  std::int64_t rows_before = 0;
  std::int64_t all_rows = 0;
  for (std::size_t each = 0; gathers && each < spec.rows[member].size(); ++each) {
    rows_before += each < rank ? spec.rows[member][each] : 0;
    all_rows += spec.rows[member][each];
  }
  PlanMember entry;
  entry.name = "member " + std::to_string(member);
  entry.input.dtype = entry.output.dtype = spec.dtype;
  entry.input.shape = entry.output.shape = {spec.elements[member]};
  if (gathers) {
    entry.input.shape = {spec.rows[member][rank], spec.elements[member]};
    entry.output.shape = {all_rows, spec.elements[member]};
  }
  if (cuts_rows(spec.kind)) {
    std::int64_t rows_out = 0;
    std::int64_t rows_in = 0;
    for (std::size_t peer = 0; peer < static_cast<std::size_t>(spec.size); ++peer) {
      rows_out += rows_between(spec, member, rank, peer);
      rows_in += rows_between(spec, member, peer, rank);
    }
    entry.input.shape = {rows_out, spec.elements[member]};
    entry.output.shape = {has_rows_for_pairs(spec.kind) ? rows_in : spec.rows[member][rank], spec.elements[member]};
  }
  const std::size_t bytes = entry.input.bytes();
  job.outputs[rank].emplace_back(entry.output.bytes(), element);
  entry.output.data = job.outputs[rank].back().data();
  std::byte* input =
      job.outputs[rank].back().data() + static_cast<std::size_t>(rows_before * spec.elements[member]) * element;
  if (!spec.in_place) {
    job.inputs[rank].emplace_back(bytes, element);
    input = job.inputs[rank].back().data();
  }
  const std::uint64_t seed = mix(spec.seed * 1000 + rank * 37 + member);
  spec.any_order && (spec.dtype == DType::float32 || spec.dtype == DType::float16)
      ? fill_with_small_integers(spec.dtype, input, bytes, seed)
      : fill(spec.dtype, input, bytes, seed);
  entry.input.data = input;
  job.input_content[rank].emplace_back(input, input + bytes);
  job.plans[rank].members.push_back(std::move(entry));
}

inline Job make_job(const JobSpec& spec) {
  Job job;
  const auto ranks = static_cast<std::size_t>(spec.size);
  job.plans.resize(ranks);
  job.inputs.resize(ranks);
  job.outputs.resize(ranks);
  job.input_content.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Plan& plan = job.plans[rank];
    plan.kind = spec.kind;
    plan.reduce_op = spec.reduce_op;
    plan.dtype = spec.dtype;
    plan.prescale = spec.prescale;
    plan.postscale = spec.postscale;
    plan.root = spec.root;
    plan.rows = spec.rows;
    for (std::size_t member = 0; member < spec.elements.size(); ++member) {
      add_member(spec, job, rank, member);
    }
  }
  job.expected.resize(gives_each_rank_its_own(spec.kind) ? ranks : 1);
  for (std::size_t member = 0; member < spec.elements.size(); ++member) {
    std::vector<std::vector<std::byte>> inputs;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      inputs.push_back(job.input_content[rank][member]);
    }
    for (std::size_t rank = 0; rank < job.expected.size(); ++rank) {
      const bool untouched = spec.kind == OpKind::reduce && rank != static_cast<std::size_t>(spec.root);
      job.expected[rank].push_back(untouched ? job.outputs[rank][member].content()
                                             : expected_output(spec, inputs, rank, member));
    }
  }
  return job;
}

/// Any job that a world of `size` can run, with members up to `most_bytes` in all or so.
inline JobSpec random_spec(int size, std::size_t most_bytes, std::mt19937_64& random) {
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  constexpr DType kTypes[] = {DType::uint8,   DType::int8,    DType::int32,   DType::int64,
                              DType::float16, DType::float32, DType::float64, DType::bfloat16};
  JobSpec spec;
  spec.size = size;
  spec.seed = random();
  spec.dtype = kTypes[below(std::size(kTypes))];
  spec.in_place = below(2) == 0;
  constexpr OpKind kKinds[] = {OpKind::allreduce, OpKind::allreduce,     OpKind::allreduce, OpKind::allreduce,
                               OpKind::allreduce, OpKind::broadcast,     OpKind::allgather, OpKind::barrier,
                               OpKind::alltoall,  OpKind::reducescatter, OpKind::reduce,    OpKind::gather,
                               OpKind::scatter,   OpKind::scan,          OpKind::exscan};
  spec.kind = kKinds[below(std::size(kKinds))];
  spec.in_place &= !cuts_rows(spec.kind);
  if (spec.kind == OpKind::barrier) {
    return spec;
  }
  spec.reduce_op = below(2) == 0 ? ReduceOp::sum : is_scan(spec.kind) ? ReduceOp::max : ReduceOp::average;
  spec.root = static_cast<int>(below(static_cast<std::uint64_t>(size)));
  const std::size_t members = 1 + below(4);
  // Mostly small, now and then as large as allowed.
  const std::uint64_t most = (below(4) == 0 ? most_bytes : most_bytes / 32) / (members * dtype_bytes(spec.dtype)) + 1;
  for (std::size_t member = 0; member < members; ++member) {
    if (spec.kind == OpKind::reducescatter) {
      spec.elements.push_back(static_cast<std::int64_t>(1 + below(5)));
      spec.rows.push_back(scattered_rows(static_cast<std::int64_t>(below(most / 5 + 1)), size));
    } else if (spec.kind == OpKind::allgather || has_rows_for_pairs(spec.kind)) {
      spec.elements.push_back(static_cast<std::int64_t>(1 + below(5)));
      spec.rows.emplace_back();
      for (int i = 0; i < (has_rows_for_pairs(spec.kind) ? size * size : size); ++i) {
        const bool none = (spec.kind == OpKind::gather && i % size != spec.root) ||
                          (spec.kind == OpKind::scatter && i / size != spec.root) || below(4) == 0;
        spec.rows.back().push_back(none ? 0 : static_cast<std::int64_t>(below(most / 5 + 1)));
      }
    } else {
      spec.elements.push_back(static_cast<std::int64_t>(below(most + 1)));
    }
  }
  return spec;
}

}  // namespace ronde::collectives
