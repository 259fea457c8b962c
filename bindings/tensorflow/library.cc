// What the library does when it is loaded, and the functions that Python calls in it.
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include <ronde/ronde.h>

#include "attributes.h"
#include "flights.h"
#include "kernels.h"
#include "operations.h"
#include "tf_c_api.h"

namespace {

/// Never freed: threads may ask for it while the process ends.
const std::string& registration();

/// TensorFlow gives the operations to Python that a library registers while it is being loaded.
[[gnu::constructor]] void register_all() { registration(); }

std::string register_everything() {
  std::string problem = ronde::tf::load();
  if (problem.empty()) {
    problem = ronde::tf::register_operations();
  }
  if (problem.empty()) {
    problem = ronde::tf::register_kernels();
  }
  return problem;
}

const std::string& registration() {
  static const auto* problem = new std::string(register_everything());
  return *problem;
}

}  // namespace

extern "C" {

/// Why there are no operations, as a sentence; "" if there are. Static.
RONDE_API const char* ronde_tf_error() { return registration().c_str(); }

/// Says the name of the next request that this thread makes, of a Start whose attribute is kNameFollows. It is read
/// while that operation runs, and must live until then.
RONDE_API void ronde_tf_name(const char* name) { ronde::tf::say_name(name); }

/// Waits for the request of a token. 1: it has succeeded, its results can be read and the token is forgotten. 0:
/// limit_s seconds have passed or a signal has come. 2: it has ended and the token is there: RondeDone or RondeDoneRows
/// says more. With `keep` 2 comes in place of 1. Any thread.
RONDE_API std::int32_t ronde_tf_finish(std::int64_t token, double limit_s, std::int32_t keep) {
  try {
    ronde::tf::FlightTable& table = ronde::tf::FlightTable::instance();
    const std::shared_ptr<ronde::tf::Flight> flight = table.find(token);
    if (flight == nullptr) {
      return 2;
    }
    ronde_status status = ronde_wait(flight->ticket(), limit_s);
    if (status != RONDE_OK) {
      if (!flight->is_done()) {
        return 0;
      }
      status = ronde_wait(flight->ticket(), 0.0);  // the wait may have ended just before the request did
    }
    if (status == RONDE_OK && keep == 0) {
      table.take(token);
      return 1;
    }
    return 2;
  } catch (const std::exception&) {
    return 2;
  }
}

/// Ends the request of a token unless all ranks have made it, as ronde_cancel() does, and forgets it, which waits until
/// its memory is free. Nothing for a token that is not known.
RONDE_API void ronde_tf_cancel(std::int64_t token) {
  try {
    if (const std::shared_ptr<ronde::tf::Flight> flight = ronde::tf::FlightTable::instance().take(token)) {
      ronde_cancel(flight->ticket());
    }
  } catch (const std::exception&) {
    return;  // it ends by its deadline
  }
}

/// As Failures::tell().
RONDE_API ronde_status ronde_tf_failure(const char* text, char* message, size_t message_bytes, std::int32_t* rank,
                                        char* tensor, size_t tensor_bytes) {
  return ronde::bindings::Failures::instance().tell(text, message, message_bytes, rank, tensor, tensor_bytes);
}

}  // extern "C"
