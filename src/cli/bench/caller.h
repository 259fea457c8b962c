// One operation of the C interface, ready to be called again and again.
#pragma once

#include <ronde/ronde.h>

#include <cstdint>
#include <string>

#include "cli/bench/options.h"

namespace ronde::cli {

class Caller {
 public:
  /// The tensors are the caller's; `output` may be `input`. Rank 0 is the root of a broadcast. Requires: checked
  /// options.
  Caller(const BenchOptions& options, std::uint64_t bytes, void* input, void* output);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  /// Once, before all calls: registers the slot if there is to be one.
  ronde_status start();
  /// Before each call and not timed: frees what the last one left.
  void prepare();
  /// What is timed.
  ronde_status call();
  /// Where the last call's result lies, null if it has none: `output`, or for an allgather the ticket's own memory,
  /// valid until the next prepare().
  const void* result() const;

 private:
  ronde_op op() const;

  BenchOp op_;
  BenchForm form_;
  std::string name_;
  std::int64_t elements_ = 0;
  ronde_tensor input_ = {};
  ronde_tensor output_ = {};
  ronde_request request_ = {};
  ronde_ticket* ticket_ = nullptr;  ///< by name only
  std::int64_t slot_ = -1;
};

}  // namespace ronde::cli
