// The C interface: shared buckets, memory that every rank of the host maps.
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "api/guard.h"
#include "api/handles.h"

using namespace ronde;       // NOLINT: this file is the seam of the whole project
using namespace ronde::api;  // NOLINT

namespace {

/// The buckets of all engines of the process, by address: they outlive their engine.
class BucketTable {
 public:
  static BucketTable& instance() {
    static auto* table = new BucketTable;  // never destroyed: buckets may be freed while the process exits
    return *table;
  }

  void add(std::shared_ptr<void> bucket) {
    std::lock_guard lock(mutex_);
    void* data = bucket.get();
    buckets_.emplace(data, std::move(bucket));
  }
  /// Null if there is none; freed when the caller drops it, outside the lock.
  std::shared_ptr<void> take(void* data) {
    std::lock_guard lock(mutex_);
    const auto found = buckets_.find(data);
    if (found == buckets_.end()) {
      return nullptr;
    }
    std::shared_ptr<void> bucket = std::move(found->second);
    buckets_.erase(found);
    return bucket;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<void>> buckets_;
};

}  // namespace

ronde_status ronde_alloc_bucket(ronde_engine* engine, const char* name, size_t name_bytes, size_t bytes, void** data) {
  return guarded([&]() -> Status {
    if (data == nullptr || (name == nullptr && name_bytes > 0)) {
      return null_argument(data == nullptr ? "data" : "name");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    Result<std::shared_ptr<void>> bucket = runner->engine().memory().allocate(bytes);
    if (!bucket) {
      return bucket.status().with_context("bucket '" + std::string(name, name_bytes) + "'");
    }
    *data = bucket->get();
    BucketTable::instance().add(std::move(*bucket));
    return {};
  });
}

ronde_status ronde_free_bucket(void* data) {
  return guarded([&]() -> Status {
    if (data == nullptr) {
      return {};
    }
    if (!BucketTable::instance().take(data)) {
      return Status::error(Code::invalid_argument, "there is no bucket that begins at this address");
    }
    return {};
  });
}
