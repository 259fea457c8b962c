// The client of a store: of one host's, on a Unix socket, or of a job's on several hosts, on TCP.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "store/store.h"

namespace ronde::store {

/// Connects to the server at `address` ("unix:/path" or "tcp:host:port") within `limit` and makes sure that each side
/// has the job's key, and on a Unix socket is of this user. AUTH_FAILED if not, TIMED_OUT, or SYSTEM_ERROR if nobody
/// listens at the path. For a server on TCP, which another rank may be about to start, it waits. The store may be used
/// from any thread, one at a time; a signal does not end its waits.
Result<std::unique_ptr<Store>> connect_store(const std::string& address, const JobKey& key, Nanoseconds limit);

/// Whether a store at this address is one host's.
inline bool is_of_one_host(std::string_view address) { return !address.starts_with("tcp:"); }

}  // namespace ronde::store
