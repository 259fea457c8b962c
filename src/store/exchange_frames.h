// What an authenticated client and the store's server say to each other, one packet each:
//
//   client -> server   Request                            one at a time
//   server -> client   Value of rank 0, ..., size-1       the request has succeeded
//                or    Refusal                            it has failed
//   client -> server   a question for the clock           in place of a request
//   server -> client   ClockReading                       at once
//
// Pure text work: descriptors travel beside a Request's and a Value's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "store/store.h"

namespace ronde::store {

inline constexpr std::size_t kMaxScopeBytes = 1024;
inline constexpr int kMaxRanks = 4096;
/// Room for any frame with the longest scope and value.
inline constexpr std::size_t kMaxFrameBytes = kMaxValueBytes + kMaxScopeBytes + 64;

struct Request {
  std::string scope;
  int rank = 0;
  int size = 1;
  Nanoseconds limit = 0;
  std::vector<std::byte> bytes;
};

/// INVALID_ARGUMENT, in words for the caller of exchange(), if the request is beyond what a frame carries.
Status check_request(const Request& request);
/// Requires: check_request() is content.
std::vector<std::byte> encode_request(const Request& request);
/// INVALID_ARGUMENT if the frame is not exactly a request that check_request() would pass.
Result<Request> decode_request(std::span<const std::byte> frame);

std::vector<std::byte> encode_value(int rank, std::span<const std::byte> bytes);
std::vector<std::byte> encode_refusal(const Status& status);

/// What the server answers: the value of `rank`, or the status.
struct Answer {
  int rank = -1;
  std::vector<std::byte> bytes;
  Status refusal;
};
/// INTERNAL if the frame is neither.
Result<Answer> decode_answer(std::span<const std::byte> frame);

/// What the server's monotonic clock says, and which boot of which host that is.
struct ClockReading {
  Nanoseconds now = 0;
  std::string boot;
};
std::vector<std::byte> encode_clock_question();
bool is_clock_question(std::span<const std::byte> frame);
std::vector<std::byte> encode_clock_reading(const ClockReading& reading);
/// INTERNAL if the frame is none.
Result<ClockReading> decode_clock_reading(std::span<const std::byte> frame);

}  // namespace ronde::store
