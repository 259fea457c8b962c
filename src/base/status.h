// Status: success, or an error with a code, one clear sentence, and where known the rank and tensor it concerns.
// Success costs one null pointer. Each layer may add context; nothing in the library throws across a module.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ronde {

/// What went wrong. The numbers are those of `ronde_status` in <ronde/ronde.h> and never change.
enum class Code : std::int32_t {
  ok = 0,
  invalid_argument = 1,  ///< the call itself is wrong; nothing was changed
  not_initialized = 2,
  not_implemented = 3,
  duplicate_name = 4,  ///< the name is still taken by a ticket that nobody waited for or released
  mismatch = 5,        ///< ranks asked for different things under one name; the job stays usable
  peer_lost = 6,       ///< a rank died; the group is unusable until shutdown and init
  peer_left = 7,       ///< a rank shut down or exited while others still needed it
  timed_out = 8,
  interrupted = 9,      ///< a signal interrupted the wait; wait again
  cancelled = 10,       ///< this rank shut down while the call was pending
  would_deadlock = 11,  ///< a wait inside a completion callback
  forked = 12,          ///< called in a forked child of the process that called init
  auth_failed = 13,     ///< the other side did not prove the job's key, or is another user
  out_of_memory = 14,
  system_error = 15,  ///< a system call failed; the text has its name and errno
  version_mismatch = 16,
  internal = 17,  ///< a bug in Ronde
};

std::string_view code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  ///< success

  static Status error(Code code, std::string message);
  /// For a failed system call: "<what>: <strerror> (errno)".
  static Status from_errno(std::string_view what, int error_number);

  bool is_ok() const { return detail_ == nullptr; }
  explicit operator bool() const { return is_ok(); }

  Code code() const { return detail_ ? detail_->code : Code::ok; }
  /// The sentence, empty on success.
  const std::string& message() const;
  /// The rank that failed or departed, -1 if the error concerns none.
  int failed_rank() const { return detail_ ? detail_->failed_rank : -1; }
  /// The tensor concerned, empty if none.
  const std::string& tensor() const;

  Status with_rank(int rank) const;
  Status with_tensor(std::string name) const;
  /// Puts a sentence in front: "<context>: <message>". Success stays success.
  Status with_context(std::string_view context) const;

 private:
  struct Detail {
    Code code;
    int failed_rank = -1;
    std::string message;
    std::string tensor;
  };
  std::shared_ptr<const Detail> detail_;
};

/// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: converts on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: converts on purpose

  bool is_ok() const { return value_.has_value(); }
  explicit operator bool() const { return is_ok(); }
  const Status& status() const { return status_; }
  /// Requires: is_ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  T& operator*() & { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ronde

#define RONDE_CONCAT_INNER(a, b) a##b
#define RONDE_CONCAT(a, b) RONDE_CONCAT_INNER(a, b)

/// Returns early with the error of a Status expression.
#define RONDE_RETURN_IF_ERROR(expression)                   \
  do {                                                      \
    if (::ronde::Status status_ = (expression); !status_) { \
      return status_;                                       \
    }                                                       \
  } while (false)

/// `RONDE_ASSIGN_OR_RETURN(auto x, f())`: declares x from a Result, or returns early with its error.
#define RONDE_ASSIGN_OR_RETURN(declaration, expression) \
  RONDE_ASSIGN_OR_RETURN_INNER(RONDE_CONCAT(result_, __LINE__), declaration, expression)
#define RONDE_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result) {                                                      \
    return result.status();                                           \
  }                                                                   \
  declaration = std::move(result).value()
