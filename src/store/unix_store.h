// The client of a store on a Unix socket.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "store/store.h"

namespace ronde::store {

/// Connects to the server at `path` within `limit` and makes sure that each side is of this user and has the job's
/// key. AUTH_FAILED if not, TIMED_OUT, or SYSTEM_ERROR if nobody listens there. The store may be used from any
/// thread, one at a time; a signal does not end its waits.
Result<std::unique_ptr<Store>> connect_unix_store(const std::string& path, const JobKey& key, Nanoseconds limit);

}  // namespace ronde::store
