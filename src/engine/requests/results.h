// Results: what the engine makes for a request besides what it writes where the program says: outputs whose sizes only
// agreement tells, with the memory that they lie in, and what the program cannot know of where they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "types/request.h"

namespace ronde::engine {

/// Gives back what make_result_memory() made.
struct ReleaseResultMemory {
  void operator()(std::byte* data) const;
};
using ResultMemory = std::unique_ptr<std::byte[], ReleaseResultMemory>;

/// Memory that begins with a line of the cache, so that vector instructions meet whole lines. Null: there is none.
ResultMemory make_result_memory(std::size_t bytes);

/// Memory that the engine made for an output whose size only agreement tells.
struct OwnedOutput {
  ResultMemory data;
  Shape shape;
};

/// Written under the progress lock before the request is done, read afterwards.
class Results {
 public:
  /// The outputs' extents are known (Plan::rows): makes their memory and points the request at it. `own` is this
  /// rank's index of the group's `ranks`.
  Status make_outputs(Request& request, const std::vector<std::vector<std::int64_t>>& rows, std::size_t own,
                      std::size_t ranks);
  /// The request's one output is this number, [1] of int32.
  void give(Request& request, std::int32_t number);
  void set_source(int rank) { source_ = rank; }
  /// The outputs go: the request will be submitted again.
  void clear();

  /// After make_outputs() one for each tensor, after give() one.
  const std::vector<OwnedOutput>& owned_outputs() const { return owned_outputs_; }
  /// Of an alltoall: the rows that came from each member of the group.
  const std::vector<std::int64_t>& received_splits() const { return received_splits_; }
  /// Of a recv: the rank that sent.
  int source() const { return source_; }

 private:
  std::vector<OwnedOutput> owned_outputs_;
  std::vector<std::int64_t> received_splits_;
  int source_ = -1;
};

}  // namespace ronde::engine
