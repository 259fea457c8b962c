// A connection between two processes of `ronde doctor`, on which they measure. Blocks, with deadlines.
#pragma once

#include <cstddef>
#include <string>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace ronde::doctor {

class WireProbe {
 public:
  /// Both ends prove that they have the job's key before anything else is read (store/handshake.h).
  static Result<WireProbe> connect(const std::string& address_and_port, const JobKey& key, Nanoseconds limit);
  /// Of the listener the first connection that proves it; others are closed.
  static Result<WireProbe> accept(int listener, const JobKey& key, Nanoseconds limit);

  /// Exactly so many bytes. TIMED_OUT if nothing moves for so long.
  Status send(const void* bytes, std::size_t count, Nanoseconds idle_limit);
  Status receive(void* bytes, std::size_t count, Nanoseconds idle_limit);

 private:
  explicit WireProbe(UniqueFd socket);
  Status prove_as_client(const JobKey& key);
  Status prove_as_server(const JobKey& key);

  UniqueFd socket_;
};

}  // namespace ronde::doctor
