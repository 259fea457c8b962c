// Which congestion control a connection between ranks has.
//
// It is the system's, but for BBR (Cardwell, Cheng, Gunn, Yeganeh and Jacobson, "BBR: Congestion-Based Congestion
// Control", ACM Queue 2016) where the peer is near. BBR sends at the rate at which it has seen bytes arrive, and a
// timer holds back what would be faster. Collectives send bursts with pauses. Where a round trip takes a few dozen
// microseconds what BBR has seen is too little, and the timer's steps are too long. Two hosts on one machine, 16 MiB:
// 9.9 ms with BBR and 7.2 with CUBIC; shaped to 10 Gbit/s no difference.
#pragma once

#include <string>

#include "base/status.h"

namespace ronde::transport {

/// In place of a name: what the system has.
inline constexpr const char* kSystemsCongestionControl = "system";

/// `name`: as Linux has it, kSystemsCongestionControl, or empty: as above. `socket`: connected, and something has come
/// back over it. INVALID_ARGUMENT if the system does not let it have the named one; no other error.
Status choose_congestion_control(int socket, const std::string& name);

}  // namespace ronde::transport
