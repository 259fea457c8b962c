// The calls that a compiled program has started and not ended yet.
#pragma once

#include <ronde/ronde.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "completions.h"
#include "memory.h"

namespace ronde::jax {

struct Span {
  std::byte* data;
  std::size_t bytes;
};

/// What a start passes on in an array of the program: to the call's end, and to the next start. A program's first start
/// gets zeros.
struct Token {
  std::uint64_t call;       ///< its number in this process
  std::uint64_t execution;  ///< of the program, counted in this process from 1 on
  std::uint64_t program;    ///< which one, as well as a hash of its first call's name can tell
};

/// Who does what is left to do when the request ends.
enum class Stage {
  unclaimed,       // whoever claims or abandons the call
  left_under_way,  // a thread of ours: XLA waits for a future
  left_finished,   // the engine thread, which only frees: the request had ended before its thread said so
  done,            // as unclaimed, and the engine thread has been there
};

/// A call under way. Its request works on memory of its own: XLA takes its memory back, without an end, where another
/// part of the program fails.
struct Call {
  explicit Call(const Token& given) : token(given) {}

  const Token token;
  std::atomic<Stage> stage = Stage::unclaimed;
  ronde_ticket* ticket = nullptr;
  ronde_op op = RONDE_ALLREDUCE;
  bool is_root = true;
  Memory memory;
  std::vector<Span> tensors;  ///< in `memory`: the operands, then in place the results where ranks have places for them
  std::vector<Span> results;  ///< XLA's memory, known from the end on
  Completion completion;
  /// What the ranks reduce in a barrier. An engine's own would begin a new count of the unnamed calls that the program
  /// makes beside.
  std::int32_t nothing = 0;

  // ---- Guarded by the mutex of Calls.

  bool is_claimed = false;
  std::string reason;  ///< why this process has cancelled it
};

/// The request has ended, and this thread has done with it: frees the call, or leaves that to the engine thread.
void leave(Call* call) noexcept;

/// Of this process. Any thread but the engine's, if not stated otherwise.
class Calls {
 public:
  /// Never destroyed: programs may be under way while the process exits.
  static Calls& instance();

  /// The token of a start that gets this one.
  Token next(const Token& before, std::string_view name);
  /// From now on the call is found by its number. Throws std::bad_alloc.
  void add(Call* call);
  /// The end of the call has come. nullptr: its program has failed meanwhile, and with it the call.
  Call* claim(std::uint64_t number);
  /// How many there are.
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  /// Before the call's ticket is released, by whoever has claimed it.
  void remove(Call* call) noexcept;
  /// The program has failed in this execution: XLA may never come to its other ends. Ends the calls that have none yet,
  /// and tells the ranks that the others are not wanted; waits for what has begun. The engine thread too.
  void fail(const Token& token, const std::string& reason) noexcept;
  /// Of a call that another rank has cancelled: the error of another call of the same execution, which is why; empty if
  /// there is none.
  std::string cause_of(const Call& call);

 private:
  void tidy(std::uint64_t program);

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Call*> calls_;  ///< guarded by mutex_
  std::atomic<std::size_t> size_ = 0;
  std::atomic<std::uint64_t> last_call_ = 0;
  std::atomic<std::uint64_t> last_execution_ = 0;
};

}  // namespace ronde::jax
