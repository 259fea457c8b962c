// Part of <ronde/ronde.hpp>: how failures are told.
#pragma once

#include <ronde/ronde.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace ronde {
// The inline namespace, here and in the other parts, keeps these names apart from the library's own where both are
// linked into one program.
inline namespace v0 {

/// What went wrong; ronde.h says more on each.
enum class Code : std::int32_t {
  ok = RONDE_OK,
  invalid_argument = RONDE_INVALID_ARGUMENT,
  not_initialized = RONDE_NOT_INITIALIZED,
  not_implemented = RONDE_NOT_IMPLEMENTED,
  duplicate_name = RONDE_DUPLICATE_NAME,
  mismatch = RONDE_MISMATCH,
  peer_lost = RONDE_PEER_LOST,
  peer_left = RONDE_PEER_LEFT,
  timed_out = RONDE_TIMED_OUT,
  interrupted = RONDE_INTERRUPTED,
  cancelled = RONDE_CANCELLED,
  would_deadlock = RONDE_WOULD_DEADLOCK,
  forked = RONDE_FORKED,
  auth_failed = RONDE_AUTH_FAILED,
  out_of_memory = RONDE_OUT_OF_MEMORY,
  system_error = RONDE_SYSTEM_ERROR,
  version_mismatch = RONDE_VERSION_MISMATCH,
  internal = RONDE_INTERNAL,
};

/// Why a call failed. what() is one sentence that names code, tensor and rank as far as they are known.
class Error : public std::runtime_error {
 public:
  Error(Code code, std::string_view message, std::string tensor = {}, int failed_rank = -1)
      : std::runtime_error(text_of(code, message, tensor, failed_rank)),
        code_(code),
        failed_rank_(failed_rank),
        tensor_(std::move(tensor)) {}

  Code code() const noexcept { return code_; }
  /// The rank that failed or left, -1 if the error concerns none.
  int failed_rank() const noexcept { return failed_rank_; }
  /// The name of the tensor concerned, empty if there is none.
  const std::string& tensor() const noexcept { return tensor_; }

 private:
  static std::string text_of(Code code, std::string_view message, const std::string& tensor, int failed_rank) {
    std::string text = ronde_status_name(static_cast<ronde_status>(code));
    if (!message.empty()) {
      text.append(": ").append(message);
    }
    // The library's sentence usually has these already.
    if (!tensor.empty() && message.find(tensor) == std::string_view::npos) {
      text.append(" (tensor '").append(tensor).append("')");
    }
    const std::string rank = "rank " + std::to_string(failed_rank);
    if (failed_rank >= 0 && message.find(rank) == std::string_view::npos) {
      text.append(" (").append(rank).append(")");
    }
    return text;
  }

  Code code_;
  int failed_rank_;
  std::string tensor_;
};

namespace detail {

/// For calls that return at once: their error is the thread's last.
inline Error last_error(ronde_status status) {
  ronde_error_info info{};
  info.struct_size = sizeof(info);
  if (ronde_last_error_info(&info) == RONDE_OK && info.status == status) {
    return Error(static_cast<Code>(status), info.message, info.tensor, info.failed_rank);
  }
  return Error(static_cast<Code>(status), "");
}

inline void check(ronde_status status) {
  if (status != RONDE_OK) {
    throw last_error(status);
  }
}

/// The error with which a wait ended. A refusal of the wait itself is described by the thread's last error, the
/// failure of the work by the ticket.
inline Error error_of(ronde_ticket* ticket, ronde_status status) {
  Error refusal = last_error(status);
  ronde_error_info info{};
  info.struct_size = sizeof(info);
  if (ticket != nullptr && ronde_ticket_error(ticket, &info) == RONDE_OK && info.status == status) {
    return Error(static_cast<Code>(status), info.message, info.tensor, info.failed_rank);
  }
  return refusal;
}

}  // namespace detail

}  // namespace v0
}  // namespace ronde
