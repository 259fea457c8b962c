// A store inside one process, for tests: ranks are threads.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "store/meetings.h"
#include "store/store.h"

namespace ronde::store {

/// One object is shared by all ranks' threads; exchange() may be called by many threads at once.
class MemoryStore final : public Store {
 public:
  Result<std::vector<Value>> exchange(const std::string& scope, int rank, int size, Value value,
                                      Nanoseconds limit) override;

 private:
  using Outcome = Result<std::shared_ptr<const Complete>>;

  std::mutex mutex_;
  std::condition_variable ended_;
  Meetings meetings_;                     ///< each call is a client of its own
  std::map<ClientId, Outcome> outcomes_;  ///< of calls whose threads have not woken yet
  ClientId next_client_ = 1;
};

}  // namespace ronde::store
