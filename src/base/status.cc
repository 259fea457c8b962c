#include "base/status.h"

#include <cerrno>
#include <cstring>

namespace ronde {

namespace {
const std::string& empty() {
  static const auto* const text = new std::string;  // never destroyed: statuses are read while the process exits
  return *text;
}
}  // namespace

std::string_view code_name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid argument";
    case Code::not_initialized: return "not initialized";
    case Code::not_implemented: return "not implemented";
    case Code::duplicate_name: return "duplicate name";
    case Code::mismatch: return "mismatch";
    case Code::peer_lost: return "peer lost";
    case Code::peer_left: return "peer left";
    case Code::timed_out: return "timed out";
    case Code::interrupted: return "interrupted";
    case Code::cancelled: return "cancelled";
    case Code::would_deadlock: return "would deadlock";
    case Code::forked: return "forked";
    case Code::auth_failed: return "authentication failed";
    case Code::out_of_memory: return "out of memory";
    case Code::system_error: return "system error";
    case Code::version_mismatch: return "version mismatch";
    case Code::internal: return "internal error";
  }
  return "unknown";
}

Status Status::error(Code code, std::string message) {
  Status status;
  status.detail_ = std::make_shared<const Detail>(Detail{code, -1, std::move(message), {}});
  return status;
}

Status Status::from_errno(std::string_view what, int error_number) {
  char buffer[128];
  // The GNU strerror_r returns the text, which may or may not be in the buffer.
  const char* text = strerror_r(error_number, buffer, sizeof buffer);
  std::string message(what);
  message += ": ";
  message += text;
  message += " (errno " + std::to_string(error_number) + ")";
  return error(error_number == ENOMEM ? Code::out_of_memory : Code::system_error, std::move(message));
}

const std::string& Status::message() const { return detail_ ? detail_->message : empty(); }

const std::string& Status::tensor() const { return detail_ ? detail_->tensor : empty(); }

Status Status::with_rank(int rank) const {
  Status copy = *this;
  if (detail_) {
    Detail detail = *detail_;
    detail.failed_rank = rank;
    copy.detail_ = std::make_shared<const Detail>(std::move(detail));
  }
  return copy;
}

Status Status::with_tensor(std::string name) const {
  Status copy = *this;
  if (detail_) {
    Detail detail = *detail_;
    detail.tensor = std::move(name);
    copy.detail_ = std::make_shared<const Detail>(std::move(detail));
  }
  return copy;
}

Status Status::with_context(std::string_view context) const {
  Status copy = *this;
  if (detail_) {
    Detail detail = *detail_;
    detail.message = std::string(context) + ": " + detail.message;
    copy.detail_ = std::make_shared<const Detail>(std::move(detail));
  }
  return copy;
}

}  // namespace ronde
