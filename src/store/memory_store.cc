#include "store/memory_store.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>

#include "store/rendezvous_text.h"

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

Result<std::vector<Value>> MemoryStore::exchange(const std::string& scope_name, int rank, int size, Value value,
                                                 Nanoseconds limit) {
  std::unique_lock lock(mutex_);
  std::shared_ptr<Scope>& entry = scopes_[scope_name];
  if (!entry) {
    entry = std::make_shared<Scope>();
    entry->values.resize(static_cast<std::size_t>(size));
    entry->come.resize(static_cast<std::size_t>(size));
    entry->missing = entry->to_fetch = size;
  }
  const std::shared_ptr<Scope> scope = entry;
  const auto index = static_cast<std::size_t>(rank);
  if (index >= scope->come.size() || scope->come[index]) {
    return claim_refused(scope_name, rank, size);
  }
  scope->come[index] = true;
  scope->values[index] = std::move(value);
  if (--scope->missing == 0) {
    scopes_.erase(scope_name);
    complete_.notify_all();
  }
  if (!complete_.wait_for(lock, std::chrono::nanoseconds(limit), [&] { return scope->missing == 0; })) {
    return missing_ranks(scope_name, scope->come, limit);
  }
  std::vector<Value> all;
  for (const Value& each : scope->values) {
    RONDE_ASSIGN_OR_RETURN(Value copy, duplicate(each));
    all.push_back(std::move(copy));
  }
  return all;
}

}  // namespace ronde::store
