// Replay's part in unnamed calls: their places, what a bucket says of them, and those that are refused.
#include <mutex>

#include "base/stable_hash.h"
#include "engine/replay.h"

namespace ronde::engine {

namespace {

using Locked = std::lock_guard<Gate>;

}  // namespace

bool Replay::place_call(const TicketPtr& ticket) {
  const Request& request = ticket->request();
  Descriptor descriptor = described(request);
  const Nanoseconds deadline = later(clock_.now(), request.timeout);
  Locked gate(gate_);
  if (member_.mode() != agreement::Mode::replay || !member_.is_planned(request.planning_name)) {
    return false;
  }
  placing_ = ticket;
  const agreement::Lane lane =
      member_.step(agreement::Submit{request.name, std::move(descriptor), deadline, request.planning_name}, *this);
  placing_ = nullptr;
  if (lane == agreement::Lane::queued) {  // clocks are watched for it too
    under_way_.store(true, std::memory_order_relaxed);
    look_soon_.store(true, std::memory_order_relaxed);
    has_work_.store(true, std::memory_order_release);
  }
  return true;
}

/// Stands for the unnamed calls in the bucket. Ranks whose calls differ have the same by a chance of one in 2^64.
std::uint64_t Replay::calls_in(std::uint32_t bucket) const {
  std::uint64_t calls = 0;
  const std::vector<BucketMember>& members = member_.bucket(bucket).members;
  for (std::uint32_t place = 0; place < members.size(); ++place) {
    if (members[place].is_unnamed()) {
      calls = mix(calls ^ stable_hash(member_.request_in(bucket, place)));
    }
  }
  return calls;
}

void Replay::refused(const std::string& name) {
  Locked gate(gate_);
  member_.step(agreement::Refused{name}, *this);
}

}  // namespace ronde::engine
