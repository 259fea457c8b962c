// Which congestion control a connection between ranks has.
//
// It is the system's, but for BBR (Cardwell, Cheng, Gunn, Yeganeh and Jacobson, "BBR: Congestion-Based Congestion
// Control", ACM Queue 2016) where the peer is near. BBR sends at the rate at which it has seen bytes arrive, and a
// timer holds back what would be faster. Collectives send bursts with pauses. Where a round trip takes a few dozen
// microseconds what BBR has seen is too little, and the timer's steps are too long. Two hosts on one machine, 16 MiB:
// 9.9 ms with BBR and 7.2 with CUBIC; shaped to 10 Gbit/s no difference.
//
// Where packets are lost, for other reasons than that the way is full, BBR is better: CUBIC takes each loss for a sign
// to slow down. So a connection that has lost more than one packet in two hundred gets the system's again. With one in
// twenty lost a set of small collectives of three hosts took 57 s with BBR and more than 200 with CUBIC.
#pragma once

#include <string>

#include "base/status.h"

namespace ronde::transport {

/// Of one connection.
class CongestionControl {
 public:
  /// In place of a name: what the system has.
  static constexpr const char* kSystems = "system";

  /// `name`: as Linux has it, kSystems, or empty: as above. `socket`: connected, and something has come back over it.
  /// INVALID_ARGUMENT if the system does not let it have the named one; no other error.
  Status choose(int socket, const std::string& name);
  /// Now and then: whether it is still the right one for the same socket.
  void look(int socket);

 private:
  std::string replaced_;  ///< what the system had given it; empty if it has that
};

}  // namespace ronde::transport
