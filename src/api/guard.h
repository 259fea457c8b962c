// The frame around every function of the C interface: refuses forked children, lets nothing be thrown out, keeps the
// sentence of an error.
#pragma once

#include <exception>
#include <new>

#include "api/process.h"
#include "base/status.h"
#include "ronde/ronde.h"

namespace ronde::api {

template <typename Body>
ronde_status guarded(const Body& body) noexcept {
  try {
    if (Status forked = Process::instance().check_not_forked(); !forked) {
      return report(forked);
    }
    return report(body());
  } catch (const std::bad_alloc&) {
    return RONDE_OUT_OF_MEMORY;  // a sentence would need memory
  } catch (const std::exception& error) {
    try {
      return report(Status::error(Code::internal, std::string("unexpected: ") + error.what()));
    } catch (...) {
      return RONDE_INTERNAL;
    }
  } catch (...) {
    return RONDE_INTERNAL;
  }
}

inline Status null_argument(const char* name) {
  return Status::error(Code::invalid_argument, std::string(name) + " is null");
}

}  // namespace ronde::api
