// Counts the connections that ended before they had proved the job's key: port scanners, other programs, ranks of other
// jobs. They cost a job nothing but this count.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/tcp_address.h"

namespace ronde::store {

/// Counts one, and warns of the first, the tenth, the hundredth and so on, with the address that it came from and the
/// rank whose `door` it came to ("the job's store"). A flood writes few lines so. Any thread.
void count_stranger(const TcpAddress& from, std::string_view door, int rank);

/// So many in this process since it began. Any thread.
std::uint64_t strangers();

}  // namespace ronde::store
