// How requests of compiled programs have failed. XLA hands a sentence on and has few codes, and JAX makes an exception
// of its own of these. So what Ronde knows besides (the status, the rank that failed, the tensor) is kept here and is
// found again by the sentence.
#pragma once

#include <string>

#include "ronde/ronde.h"

namespace ronde::jax {

struct Failure {
  ronde_status status = RONDE_OK;
  std::string message;
  std::string tensor;
  int rank = -1;  ///< the rank that failed, -1: none
};

/// Of this process the last ones are kept. Any thread. Throws std::bad_alloc.
void keep_failure(Failure failure);
/// The newest whose sentence is part of this text; false if there is none. Any thread. Throws std::bad_alloc.
bool find_failure(const std::string& text, Failure* failure);

}  // namespace ronde::jax
