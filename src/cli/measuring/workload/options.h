// What to measure, as given on the command line.
#pragma once

#include <ronde/ronde.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measuring/workload/bench_op.h"

namespace ronde::cli {

/// How a call is made: by name each time, through a slot registered once, or as a plan made once.
enum class BenchForm { name, slot, persistent };
/// How the tensors of a set are handed over: all submitted, then all waited for; one after the other; laid in one
/// buffer from the start; or copied into one buffer and back, both in the time.
enum class SetMode { async, blocking, flat, packed };

std::optional<BenchForm> parse_bench_form(std::string_view text);
std::string_view bench_form_name(BenchForm form);
std::optional<SetMode> parse_set_mode(std::string_view text);
std::string_view set_mode_name(SetMode mode);

/// The types that can be filled with known numbers and verified.
const std::vector<std::string>& bench_dtype_names();
/// Nothing for a name that is none of them.
std::optional<ronde_dtype> parse_bench_dtype(std::string_view text);
/// Of one element of such a type.
std::size_t bench_dtype_bytes(ronde_dtype dtype);

struct BenchOptions {
  BenchOp op = BenchOp::allreduce;
  BenchForm form = BenchForm::name;
  std::string dtype = "float32";
  /// Of a sweep: the size of one rank's input, one measurement each.
  std::vector<std::uint64_t> bytes = {};
  /// In place of a sweep: a set of tensors, as tensor_set() knows it. Empty: a sweep.
  std::string set = {};
  SetMode mode = SetMode::async;  ///< of a set
  double overlap_us = 0;          ///< of a set: how long a rank computes before each tensor is ready
  std::uint64_t iterations = 0;   ///< timed calls for each measurement; 0: iterations_for()
  double seconds = 0;             ///< a measurement makes no further call after so long; 0: no limit
  bool in_place = false;
  bool shared = false;  ///< the tensors lie in memory that all ranks map
  bool json = false;
  bool progress = false;  ///< rank 0 tells on standard error how far it is
  std::string plot = {};  ///< file for a picture of a sweep; empty: none
};

/// Why these options make no sense together, as a sentence; empty if they do.
std::string check_options(const BenchOptions& options);

/// The words after "ronde" that ask for the same on a rank.
std::vector<std::string> to_arguments(const BenchOptions& options);

/// Timed calls by default: many where they are short, and so few for the largest that a sweep stays within seconds.
std::uint64_t iterations_for(std::uint64_t bytes);
/// Calls before them that are not timed.
std::uint64_t warm_up_for(std::uint64_t iterations);

}  // namespace ronde::cli
