// PeerInfo: who a member is, for messages only.
#pragma once

#include <string>

namespace ronde::transport {

struct PeerInfo {
  std::string host;
  int pid = 0;  ///< as the peer itself sees it
};

}  // namespace ronde::transport
