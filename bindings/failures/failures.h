// How requests of compiled programs have failed. XLA and TensorFlow hand a sentence on and have few codes, and the
// framework makes an exception of its own of these. So what Ronde knows besides (the status, the rank that failed, the
// tensor) is kept here and is found again by the sentence. Part of each binding whose framework is so.
#pragma once

#include <ronde/ronde.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

namespace ronde::bindings {

struct Failure {
  ronde_status status = RONDE_OK;
  std::string message;
  std::string tensor;
  int rank = -1;  ///< the rank that failed, -1: none

  bool is_ok() const { return status == RONDE_OK; }
};

/// What the engine says of one.
Failure failure_of(const ronde_error_info& info);
/// What this thread's last call of the engine has said of its failure with this status.
Failure last_failure(ronde_status status);

/// Of this process the last ones are kept. Any thread. Throws std::bad_alloc.
class Failures {
 public:
  /// Never destroyed: programs may be under way while the process exits.
  static Failures& instance();

  void keep(Failure failure);
  /// The newest whose sentence is part of this text; false if there is none.
  bool find(const std::string& text, Failure* failure);
  /// The same for Python: copies its sentence and tensor, at most so many bytes with a NUL. Returns its status,
  /// RONDE_OK if there is none. Throws nothing.
  ronde_status tell(const char* text, char* message, std::size_t message_bytes, std::int32_t* rank, char* tensor,
                    std::size_t tensor_bytes) noexcept;

 private:
  std::mutex mutex_;
  std::deque<Failure> failures_;  ///< oldest first; guarded by mutex_
};

}  // namespace ronde::bindings
