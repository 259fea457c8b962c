// The server of a store, through which the ranks of a job meet: on a Unix socket for the ranks of one host, run by the
// launcher (or by rank 0 where there is none), or on TCP, run by rank 0.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::store {

/// A listening socket at `path`, close-on-exec. The folder should be open to this user only (base: mode 0700): the
/// server checks the peers' user all the same. The file is the caller's to remove. INVALID_ARGUMENT if the path is
/// longer than a Unix socket's may be (107 bytes).
Result<UniqueFd> listen_unix(const std::string& path);

/// The same under the abstract name that goes with `path`, for ranks in containers that have this process's network
/// namespace but not its folders. Any user may connect there: the server refuses others. Not open if it cannot be had.
UniqueFd listen_beside(const std::string& path);

struct StoreServerOptions {
  int max_connections = 4096;  ///< authenticated or not; what comes beyond is closed at once
  /// Connections that have not proved the key yet: at most so many, and none for longer than the limit. Together they
  /// bound what a process without the key can make the server hold.
  int max_strangers = 512;
  Nanoseconds handshake_limit = 10 * kSecond;
  Nanoseconds answer_limit = 30 * kSecond;  ///< a client that does not take its answer for so long is dropped
};

/// Serves from start() to its destruction, on one thread of its own, which blocks all signals. Nothing it does is
/// seen by the other threads of the process; a peer's misbehaviour costs that peer its connection.
class StoreServer {
 public:
  /// Takes over a listening socket (from listen_unix or listen_tcp, or inherited), and a second one if that is open.
  /// SYSTEM_ERROR if it cannot start.
  static Result<std::unique_ptr<StoreServer>> start(UniqueFd listener, const JobKey& key,
                                                    const StoreServerOptions& options = {}, UniqueFd beside = {});
  /// Stops, joins, closes every connection: clients under way get an error at once.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  StoreServer(UniqueFd stop, std::thread thread) : stop_(std::move(stop)), thread_(std::move(thread)) {}

  UniqueFd stop_;  ///< an eventfd; the thread owns everything else
  std::thread thread_;
};

}  // namespace ronde::store
