// Observer: is told of every stage of every request of this process's engines, and changes nothing. With none attached
// an engine's stage costs one look at a null pointer; what is replayed is one event per instance of a bucket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "types/bucket.h"
#include "types/plan.h"
#include "types/request.h"

namespace ronde::observe {

/// An instance of a bucket, reduced without a message.
struct Instance {
  std::uint64_t number = 0;   ///< of this bucket, from 1
  Nanoseconds published = 0;  ///< full on this rank
  Nanoseconds met = 0;        ///< seen full on every rank
  Nanoseconds done = 0;
};

/// Calls come from one thread at a time (the progress lock of the engines) and must neither block nor throw. `group` is
/// the id of the process set, 0 for all ranks. Nothing that is passed outlives the call.
class Observer {
 public:
  virtual ~Observer() = default;

  /// This rank asks the coordinator about a name.
  virtual void requested(std::int32_t group, std::string_view name, const Descriptor& descriptor, Nanoseconds now) = 0;
  /// On the coordinator's rank: `rank` of the job is ready.
  virtual void ready(std::int32_t group, std::string_view name, const Descriptor& descriptor, int rank,
                     Nanoseconds now) = 0;
  /// A batch of agreed requests is planned next.
  virtual void batch(std::int32_t group, Nanoseconds now) = 0;
  /// All ranks are ready, or (send, recv, join) no agreement is needed: the operation is under way.
  virtual void agreed(const Request& request, Nanoseconds now) = 0;
  /// A plan with this tensor begins to move data. A request may have several, one after the other.
  virtual void started(const Request& request, const Plan& plan, Nanoseconds now) = 0;
  /// That plan has come to its end.
  virtual void stopped(const Request& request, Nanoseconds now) = 0;
  /// The request is over, well or not. Not for replayed ones.
  virtual void finished(const Request& request, const Status& status, Nanoseconds now) = 0;
  virtual void replayed(std::int32_t group, const Bucket& bucket, const Instance& instance) = 0;
};

}  // namespace ronde::observe
