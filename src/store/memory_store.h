// A store inside one process, for tests: ranks are threads.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "store/store.h"

namespace ronde::store {

/// One object is shared by all ranks' threads; exchange() may be called by many threads at once.
class MemoryStore final : public Store {
 public:
  Result<std::vector<Value>> exchange(const std::string& scope, int rank, int size, Value value,
                                      Nanoseconds limit) override;

 private:
  struct Scope {
    std::vector<Value> values;
    std::vector<bool> come;
    int missing = 0;
    int to_fetch = 0;
  };

  std::mutex mutex_;
  std::condition_variable complete_;
  std::map<std::string, std::shared_ptr<Scope>> scopes_;
};

}  // namespace ronde::store
