// Timeline: the observer that writes what happens to every tensor as a Chrome trace, with the names of Horovod's
// (docs/timeline.md). One row (a "process" of the trace) for each tensor, one for each bucket of several tensors that
// is replayed, and row 0 for the rank itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/job_clock.h"
#include "observe/observer.h"
#include "observe/trace_file.h"

namespace ronde::observe {

/// Who writes a timeline; stands at the beginning of the file, for who merges several.
struct TimelineOwner {
  int rank = 0;
  int size = 1;
  bool mark_cycles = false;  ///< an event CYCLE_START for each batch of agreed requests
  JobClock job_clock = {};
};

/// `path` for rank 0, `path`.R for every other rank R.
std::string timeline_path(const std::string& path, int rank);

class Timeline final : public Observer {
 public:
  /// `now` is the engines' clock at this moment, in which all later calls speak. SYSTEM_ERROR naming the file if it
  /// cannot be written.
  static Result<std::unique_ptr<Timeline>> start(const std::string& path, const TimelineOwner& owner, Nanoseconds now,
                                                 TraceFile::Options options = {});
  /// Ends what is still open in the file as of `now`.
  void stop(Nanoseconds now);
  const std::string& path() const { return file_->path(); }
  std::uint64_t lost() const { return file_->lost(); }

  void requested(std::int32_t group, std::string_view name, const Descriptor& descriptor, Nanoseconds now) override;
  void ready(std::int32_t group, std::string_view name, const Descriptor& descriptor, int rank,
             Nanoseconds now) override;
  void batch(std::int32_t group, Nanoseconds now) override;
  void agreed(const Request& request, Nanoseconds now) override;
  void started(const Request& request, const Plan& plan, Nanoseconds now) override;
  void stopped(const Request& request, Nanoseconds now) override;
  void finished(const Request& request, const Status& status, Nanoseconds now) override;
  void replayed(std::int32_t group, const Bucket& bucket, const Instance& instance) override;

 private:
  enum class Phase { idle, negotiating, running };
  /// A row and what is open in it.
  struct Lane {
    std::uint32_t row = 0;
    Phase phase = Phase::idle;
    bool in_activity = false;  ///< of the operation
    Nanoseconds since = 0;     ///< of what was opened last
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Lanes = std::unordered_map<std::string, Lane, Hash, std::equal_to<>>;

  Timeline(TimelineOwner owner, Nanoseconds start) : owner_(owner), start_(start) {}

  Lane* lane(std::int32_t group, std::string_view name);
  Lane* find(std::int32_t group, std::string_view name);
  Lane* lane_of(std::int32_t group, const Bucket& bucket);
  bool open(Lane& lane, std::string_view event, Nanoseconds now, std::string_view arguments = {});
  void close(Lane& lane, Nanoseconds now, std::string_view arguments = {});
  void negotiate(Lane& lane, const Descriptor& descriptor, Nanoseconds now);
  void end_negotiation(Lane& lane, Nanoseconds now);
  void end_activity(Lane& lane, Nanoseconds now);
  std::string time(Nanoseconds at) const;

  const TimelineOwner owner_;
  const Nanoseconds start_;
  std::unique_ptr<TraceFile> file_;
  std::map<std::int32_t, Lanes> lanes_;                                   ///< by group
  std::map<std::pair<std::int32_t, std::uint32_t>, Lane*> bucket_lanes_;  ///< by group and bucket
  std::uint32_t rows_ = 0;
  std::size_t name_bytes_ = 0;
  std::size_t negotiating_ = 0;  ///< lanes
};

}  // namespace ronde::observe
