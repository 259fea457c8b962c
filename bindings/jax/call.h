// A call of a compiled program under way: what is needed at its end.
//
// A call is one operation of XLA's, or two: a start, which hands the request in and waits for nobody, and an end, which
// brings the results. What is said of the order is in docs/decisions/0025.
#pragma once

#include <ronde/ronde.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "completions.h"

namespace ronde::jax {

struct Span {
  std::byte* data;
  std::size_t bytes;
};

/// What an ordered call passes on in an array of the program: to its own end, and to the start of the next. The first
/// one of a program gets zeros and the program.
struct Token {
  std::uint64_t call;      ///< its number in this process
  std::int64_t execution;  ///< of the program: counted in this process from 1 on
  std::uint64_t program;   ///< programs that make other calls on this rank have another
};

/// Who does what is left to do when the request ends.
enum class Stage {
  open,            // an operation of XLA's: one that looks at the call now, or an end that is still to come
  left_under_way,  // the engine thread has it done: XLA waits for a future
  left_finished,   // the engine thread, which only frees: XLA has its results, or wants none
  done,            // as open, and the engine thread has been there
};

struct Call {
  std::atomic<Stage> stage = Stage::open;
  Token token{};         ///< of one that is ordered
  std::int64_t run = 0;  ///< the execution that it belongs to
  std::string name;
  ronde_ticket* ticket = nullptr;
  Completion completion;
  ronde_op op = RONDE_ALLREDUCE;
  bool is_root = true;
  /// It is a start and an end. Its request works on memory of its own: XLA takes the program's back, without an end,
  /// where another part of the program fails.
  bool is_split = false;
  std::unique_ptr<std::byte[]> memory;
  std::vector<Span> operands;  ///< in XLA's memory, or in `memory`
  std::vector<Span> results;   ///< in XLA's memory
  /// What the ranks reduce in a barrier. An engine's own would begin a new count of the unnamed calls that the program
  /// makes beside.
  std::int32_t nothing = 0;
};

}  // namespace ronde::jax
