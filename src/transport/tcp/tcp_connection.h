// Connection: a socket to another rank, connected and authenticated, with the keys of what travels over it.
#pragma once

#include "base/job_key.h"
#include "base/unique_fd.h"
#include "transport/tcp/congestion.h"

namespace ronde::transport {

struct TcpConnection {
  UniqueFd socket;
  JobKey sending{};  ///< the other end's `receiving`; of this connection alone
  JobKey receiving{};
  CongestionControl congestion = {};

  bool is_open() const { return socket.is_open(); }
};

}  // namespace ronde::transport
