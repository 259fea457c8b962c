#include "observe/timeline.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>

#include "base/boot_id.h"
#include "base/host_name.h"
#include "base/version.h"
#include "observe/json_text.h"

namespace ronde::observe {

namespace {

/// What ends something needs at most so many bytes; kept free for it when it is begun, so that it always has an end.
constexpr std::size_t kEndBytes = 256;
constexpr std::size_t kShapeBytes = 96;
/// A program may give every tensor of every step another name: then later ones have no row.
constexpr std::uint32_t kMaxRows = 1 << 16;
constexpr std::size_t kMaxNameBytesOfAll = 16 << 20;

std::string event_name(OpKind kind, ReduceOp op) {
  std::string name(kind == OpKind::allreduce && op == ReduceOp::adasum ? "adasum" : op_name(kind));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

std::string row_events(std::uint32_t row, const std::string& arguments) {
  const std::string pid = std::to_string(row);
  return R"({"name":"process_name","ph":"M","pid":)" + pid + R"(,"args":{)" + arguments +
         "}},\n"
         R"({"name":"process_sort_index","ph":"M","pid":)" +
         pid + R"(,"args":{"sort_index":)" + pid + "}}";
}

/// The output's type and extents where there is one output, as the end of an operation says them.
std::string output_arguments(const Request& request) {
  if (request.tensors.size() != 1) {
    return {};
  }
  const RequestTensor& pair = request.tensors.front();
  const Tensor& tensor = makes_outputs(request.kind) && pair.output.data == nullptr ? pair.input : pair.output;
  std::string shape = shape_text(tensor.shape);
  if (shape.size() > kShapeBytes) {
    shape.replace(kShapeBytes - 4, std::string::npos, "...]");
  }
  return R"("dtype":")" + std::string(dtype_name(tensor.dtype)) + R"(","shape":")" + shape + '"';
}

/// For who merges timelines of several hosts.
std::string job_clock_arguments(const JobClock& clock) {
  if (clock.boot.empty()) {
    return {};
  }
  return R"(,"job_clock_boot_id":)" + json_text(clock.boot) + R"(,"behind_job_clock_ns":)" +
         std::to_string(clock.behind) + R"(,"job_clock_within_ns":)" + std::to_string(clock.within);
}

}  // namespace

std::string timeline_path(const std::string& path, int rank) {
  return rank == 0 ? path : path + "." + std::to_string(rank);
}

Result<std::unique_ptr<Timeline>> Timeline::start(const std::string& path, const TimelineOwner& owner, Nanoseconds now,
                                                  TraceFile::Options options) {
  std::unique_ptr<Timeline> timeline(new Timeline(owner, now));
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const std::string who = "rank " + std::to_string(owner.rank) + " of " + std::to_string(owner.size);
  const std::string first =
      row_events(0, R"("name":")" + who + R"(","start_time_since_epoch_in_micros":)" +
                        std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count()) +
                        R"(,"start_monotonic_ns":)" + std::to_string(now) + R"(,"boot_id":)" + json_text(boot_id()) +
                        R"(,"host":)" + json_text(host_name()) + R"(,"process_id":)" + std::to_string(::getpid()) +
                        R"(,"rank":)" + std::to_string(owner.rank) + R"(,"size":)" + std::to_string(owner.size) +
                        R"(,"ronde":")" + std::string(kVersion) + '"' + job_clock_arguments(owner.job_clock));
  options.rank = owner.rank;
  options.mark = R"(,"start_monotonic_ns":)";
  options.lost_event = [](std::uint64_t events) {
    // Without a time, of which the file's thread knows nothing: it stands where the gap is.
    return R"({"name":"DROPPED","ph":"M","pid":0,"args":{"events":)" + std::to_string(events) + "}}";
  };
  RONDE_ASSIGN_OR_RETURN(timeline->file_, TraceFile::create(path, first, std::move(options)));
  return timeline;
}

void Timeline::stop(Nanoseconds now) {
  for (auto& [group, lanes] : lanes_) {
    for (auto& [name, lane] : lanes) {
      end_activity(lane, now);
      if (lane.phase != Phase::idle) {
        negotiating_ -= lane.phase == Phase::negotiating ? 1 : 0;
        lane.phase = Phase::idle;
        close(lane, now, R"("ended_by":"stop_timeline")");
      }
    }
  }
}

// ---- Rows

std::string Timeline::time(Nanoseconds at) const {
  const Nanoseconds span = std::max<Nanoseconds>(0, at - start_);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(span / kMicrosecond),
                static_cast<long long>(span % kMicrosecond));
  return text.data();
}

Timeline::Lane* Timeline::find(std::int32_t group, std::string_view name) {
  const auto lanes = lanes_.find(group);
  if (lanes == lanes_.end()) {
    return nullptr;
  }
  const auto found = lanes->second.find(name);
  return found == lanes->second.end() ? nullptr : &found->second;
}

/// Null if there is no room for another row.
Timeline::Lane* Timeline::lane(std::int32_t group, std::string_view name) {
  if (Lane* known = find(group, name)) {
    return known;
  }
  if (rows_ >= kMaxRows || name_bytes_ + name.size() > kMaxNameBytesOfAll) {
    file_->count_lost();
    return nullptr;
  }
  const std::string shown =
      group == 0 ? std::string(name) : "process set " + std::to_string(group) + ": " + std::string(name);
  if (!file_->put(row_events(rows_ + 1, R"("name":)" + json_text(shown)))) {
    return nullptr;
  }
  name_bytes_ += name.size();
  return &lanes_[group].emplace(std::string(name), Lane{++rows_}).first->second;
}

/// A bucket of one tensor is replayed in the tensor's own row.
Timeline::Lane* Timeline::lane_of(std::int32_t group, const Bucket& bucket) {
  const std::pair key(group, bucket.id);
  if (const auto found = bucket_lanes_.find(key); found != bucket_lanes_.end()) {
    return found->second;
  }
  std::string name = bucket.members.front().name;
  if (bucket.members.size() > 1) {
    name = "bucket " + std::to_string(bucket.id) + ": " + name + " and " + std::to_string(bucket.members.size() - 1) +
           " more";
  }
  Lane* const found = lane(group, name);
  if (found != nullptr) {
    bucket_lanes_.emplace(key, found);
  }
  return found;
}

// ---- What begins and ends

bool Timeline::open(Lane& lane, std::string_view event, Nanoseconds now, std::string_view arguments) {
  std::string text = R"({"name":")";
  text += event;
  text += R"(","ph":"B","pid":)" + std::to_string(lane.row) + R"(,"ts":)" + time(now);
  if (!arguments.empty()) {
    text += R"(,"args":{)";
    text += arguments;
    text += '}';
  }
  lane.since = now;
  return file_->put(text + '}', kEndBytes, 2);
}

void Timeline::close(Lane& lane, Nanoseconds now, std::string_view arguments) {
  std::string text = R"({"ph":"E","pid":)" + std::to_string(lane.row) + R"(,"ts":)" + time(std::max(now, lane.since));
  if (!arguments.empty()) {
    text += R"(,"args":{)";
    text += arguments;
    text += '}';
  }
  file_->put_reserved(text + '}', kEndBytes);
}

void Timeline::negotiate(Lane& lane, const Descriptor& descriptor, Nanoseconds now) {
  if (lane.phase == Phase::idle && open(lane, "NEGOTIATE_" + event_name(descriptor.kind, descriptor.reduce_op), now)) {
    lane.phase = Phase::negotiating;
    ++negotiating_;
  }
}

void Timeline::end_negotiation(Lane& lane, Nanoseconds now) {
  if (lane.phase == Phase::negotiating) {
    close(lane, now);
    lane.phase = Phase::idle;
    --negotiating_;
  }
}

void Timeline::end_activity(Lane& lane, Nanoseconds now) {
  if (lane.in_activity) {
    close(lane, now);
    lane.in_activity = false;
  }
}

// ---- Stages

void Timeline::requested(std::int32_t group, std::string_view name, const Descriptor& descriptor, Nanoseconds now) {
  if (Lane* const found = lane(group, name)) {
    negotiate(*found, descriptor, now);
  }
}

void Timeline::ready(std::int32_t group, std::string_view name, const Descriptor& descriptor, int rank,
                     Nanoseconds now) {
  Lane* const found = lane(group, name);
  if (found == nullptr) {
    return;
  }
  negotiate(*found, descriptor, now);
  if (found->phase == Phase::negotiating) {
    file_->put(R"({"name":")" + std::to_string(rank) + R"(","ph":"X","dur":0,"pid":)" + std::to_string(found->row) +
               R"(,"ts":)" + time(now) + '}');
  }
}

void Timeline::batch(std::int32_t group, Nanoseconds now) {
  if (owner_.mark_cycles) {
    file_->put(R"({"name":"CYCLE_START","ph":"i","s":"g","pid":0,"ts":)" + time(now) + R"(,"args":{"process_set":)" +
               std::to_string(group) + "}}");
  }
}

void Timeline::agreed(const Request& request, Nanoseconds now) {
  Lane* const found = lane(request.group, request.name);
  if (found == nullptr) {
    return;
  }
  end_negotiation(*found, now);
  if (found->phase == Phase::idle && open(*found, event_name(request.kind, request.reduce_op), now)) {
    found->phase = Phase::running;
    found->in_activity = open(*found, "QUEUE", now);
  }
}

void Timeline::started(const Request& request, const Plan& plan, Nanoseconds now) {
  Lane* const found = find(request.group, request.name);
  if (found == nullptr || found->phase != Phase::running) {
    return;
  }
  end_activity(*found, now);
  found->in_activity =
      open(*found, "NATIVE_" + event_name(request.kind, request.reduce_op), now,
           R"("fused_tensors":)" + std::to_string(plan.members.size()) + R"(,"bytes":)" + std::to_string(plan.bytes()));
}

void Timeline::stopped(const Request& request, Nanoseconds now) {
  if (Lane* const found = find(request.group, request.name)) {
    end_activity(*found, now);
  }
}

void Timeline::finished(const Request& request, const Status& status, Nanoseconds now) {
  Lane* const found = find(request.group, request.name);
  if (found == nullptr) {
    return;
  }
  end_activity(*found, now);
  const std::string how =
      status ? output_arguments(request) : R"("error":")" + std::string(code_name(status.code())) + '"';
  if (found->phase != Phase::idle) {
    negotiating_ -= found->phase == Phase::negotiating ? 1 : 0;
    found->phase = Phase::idle;
    close(*found, now, how);
  }
}

void Timeline::replayed(std::int32_t group, const Bucket& bucket, const Instance& instance) {
  const Nanoseconds begin = std::max(instance.published, start_);
  if (negotiating_ > 0) {  // what had been asked when the bucket came into force was not answered one by one
    for (const BucketMember& member : bucket.members) {
      if (Lane* const found = find(group, member.name)) {
        end_negotiation(*found, begin);
      }
    }
  }
  Lane* const found = lane_of(group, bucket);
  if (found == nullptr) {
    return;
  }
  const Descriptor& first = bucket.members.front().descriptor;
  file_->put(R"({"name":")" + event_name(first.kind, first.reduce_op) + R"(","ph":"X","pid":)" +
             std::to_string(found->row) + R"(,"ts":)" + time(begin) + R"(,"dur":)" +
             time(start_ + instance.done - begin) + R"(,"args":{"replayed":)" + std::to_string(instance.number) +
             R"(,"waited_us":)" + time(start_ + std::max<Nanoseconds>(0, instance.met - begin)) + R"(,"tensors":)" +
             std::to_string(bucket.members.size()) + R"(,"bytes":)" + std::to_string(payload_bytes(bucket)) + "}}");
}

}  // namespace ronde::observe
