// What is measured: an engine that ranks of one host reduce with. Ronde is one (cli/bench); the programs of
// benchmarks/peers make the others, so that all are timed by the same loop on the same numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cli/measuring/workload/options.h"

namespace ronde::cli {

/// Memory for a tensor, without values: std::vector would write it, and the first touch should be the pattern's.
struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

/// nullptr if there is none. Small ones lie as close as an allocator of tensors puts them (a page each would put
/// thousands of them on the same few lines of a cache), large ones on pages of their own.
inline Memory allocate_private(std::uint64_t bytes) {
  constexpr std::uint64_t kLine = 64;
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kSmall = 64 << 10;
  const std::uint64_t alignment = bytes < kSmall ? kLine : kPage;
  return Memory(
      std::aligned_alloc(alignment, (std::max<std::uint64_t>(bytes, 1) + alignment - 1) / alignment * alignment));
}

/// A tensor of the loop's. `output` is `input` in place, and nullptr where the operation makes its own.
struct TensorPlace {
  void* input = nullptr;
  void* output = nullptr;
  std::uint64_t bytes = 0;
};

/// Calls on one thread. What returns bool returns false on failure, and failure() then has the sentence; what is timed
/// does no more than the engine's own call and this one virtual one.
class Contestant {
 public:
  virtual ~Contestant() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Of the last call that returned false.
  virtual std::string failure() const = 0;

  /// Memory for so many tensors, each of its own; private to the rank unless a contestant knows better. The places are
  /// valid until the next open() or close() pair has ended. Collective.
  virtual bool allocate(const std::vector<std::uint64_t>& bytes, std::vector<void*>* places) {
    for (const std::uint64_t each : bytes) {
      memory_.push_back(allocate_private(each));
      if (memory_.back() == nullptr) {
        return false;
      }
      places->push_back(memory_.back().get());
    }
    return true;
  }

  /// The tensors of the calls that follow, until close(). `label` is the same on all ranks and no other open() has it.
  virtual bool open(const BenchOptions& options, const std::string& label, const std::vector<TensorPlace>& tensors) = 0;
  /// Forgets the tensors and frees what allocate() gave; does nothing if nothing is open.
  virtual void close() { memory_.clear(); }

  /// Before each call, not timed: frees what the last one left.
  virtual void prepare() {}
  /// Tensor i, from beginning to end.
  virtual bool run(std::size_t i) = 0;
  /// Tensor i is ready; the call returns at once.
  virtual bool submit(std::size_t i) = 0;
  /// Until all that was submitted is done.
  virtual bool wait_all() = 0;
  /// Where tensor i's result lies, nullptr if there is none.
  virtual const void* result(std::size_t i) const = 0;

 private:
  std::vector<Memory> memory_;
};

}  // namespace ronde::cli
