// The C interface: shared buffers, memory that every rank of the host maps.
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "api/guard.h"
#include "api/handles.h"

using namespace ronde;       // NOLINT: this file is the seam of the whole project
using namespace ronde::api;  // NOLINT

namespace {

/// The buffers of all engines of the process, by address: they outlive their engine.
class SharedBuffers {
 public:
  static SharedBuffers& instance() {
    static auto* table = new SharedBuffers;  // never destroyed: buffers may be freed while the process exits
    return *table;
  }

  void add(std::shared_ptr<void> buffer) {
    std::lock_guard lock(mutex_);
    void* data = buffer.get();
    buffers_.emplace(data, std::move(buffer));
  }
  /// Null if there is none; freed when the caller drops it, outside the lock.
  std::shared_ptr<void> take(void* data) {
    std::lock_guard lock(mutex_);
    const auto found = buffers_.find(data);
    if (found == buffers_.end()) {
      return nullptr;
    }
    std::shared_ptr<void> buffer = std::move(found->second);
    buffers_.erase(found);
    return buffer;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<void>> buffers_;
};

}  // namespace

ronde_status ronde_alloc_shared(ronde_engine* engine, const char* name, size_t name_bytes, size_t bytes, void** data) {
  return guarded([&]() -> Status {
    if (data == nullptr || (name == nullptr && name_bytes > 0)) {
      return null_argument(data == nullptr ? "data" : "name");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    Result<std::shared_ptr<void>> buffer = runner->engine().memory().allocate(bytes);
    if (!buffer) {
      return buffer.status().with_context("shared buffer '" + std::string(name, name_bytes) + "'");
    }
    *data = buffer->get();
    SharedBuffers::instance().add(std::move(*buffer));
    return {};
  });
}

ronde_status ronde_free_shared(void* data) {
  return guarded([&]() -> Status {
    if (data == nullptr) {
      return {};
    }
    if (!SharedBuffers::instance().take(data)) {
      return Status::error(Code::invalid_argument, "there is no shared buffer that begins at this address");
    }
    return {};
  });
}

ronde_status ronde_alloc_bucket(ronde_engine* engine, const char* name, size_t name_bytes, size_t bytes, void** data) {
  return ronde_alloc_shared(engine, name, name_bytes, bytes, data);
}

ronde_status ronde_free_bucket(void* data) { return ronde_free_shared(data); }
