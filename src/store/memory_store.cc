#include "store/memory_store.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>

namespace ronde::store {

namespace {

/// Each rank gets descriptors of its own, as it would through a socket.
Result<Value> duplicate(const Value& value) {
  Value copy;
  copy.bytes = value.bytes;
  for (const UniqueFd& fd : value.descriptors) {
    const int duplicate_fd = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
    if (duplicate_fd < 0) {
      return Status::from_errno("fcntl(F_DUPFD_CLOEXEC)", errno);
    }
    copy.descriptors.emplace_back(duplicate_fd);
  }
  return copy;
}

}  // namespace

Result<std::vector<Value>> MemoryStore::exchange(const std::string& scope, int rank, int size, Value value,
                                                 Nanoseconds limit) {
  const RealClock clock;
  std::unique_lock lock(mutex_);
  const ClientId client = next_client_++;
  const Nanoseconds deadline = later(clock.now(), limit);
  RONDE_ASSIGN_OR_RETURN(std::shared_ptr<const Complete> complete,
                         meetings_.join(client, scope, rank, size, std::move(value), limit, clock.now()));
  if (complete) {
    for (const ClientId member : complete->members) {
      outcomes_.emplace(member, complete);
    }
    ended_.notify_all();
  }
  while (!outcomes_.contains(client)) {
    if (deadline == kNever) {
      ended_.wait(lock);
    } else {
      // steady_clock::time_point's own zero is the one of RealClock.
      ended_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline)));
    }
    for (const Expired& each : meetings_.expire(clock.now())) {
      outcomes_.emplace(each.client, each.status);
      ended_.notify_all();
    }
  }
  const Outcome outcome = std::move(outcomes_.extract(client).mapped());
  lock.unlock();
  if (!outcome) {
    return outcome.status();
  }
  std::vector<Value> all;
  for (const Value& each : outcome.value()->values) {
    RONDE_ASSIGN_OR_RETURN(Value copy, duplicate(each));
    all.push_back(std::move(copy));
  }
  return all;
}

}  // namespace ronde::store
