// What Python tells of executions (python/ronde/jax/_endings.py).
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "executions.h"

/// A point in time, for ronde_jax_ended_in_error(). -1: there is no memory.
extern "C" RONDE_API std::int64_t ronde_jax_now() {
  try {
    return ronde::jax::Executions::instance().now();
  } catch (const std::exception&) {
    return -1;
  }
}

/// As Executions::ended_in_error(). `places`: four numbers for each, as in the attributes of a call. Any thread; never
/// waits for another rank. False: there is no memory, and the execution is not known.
extern "C" RONDE_API bool ronde_jax_ended_in_error(const std::int64_t* places, std::size_t place_count,
                                                   const std::int64_t* given, std::size_t given_count,
                                                   bool is_of_argument, std::int64_t started, const char* error) {
  try {
    std::vector<ronde::jax::Executions::Place> all;
    for (std::size_t i = 0; i < place_count; ++i) {
      const std::int64_t* const place = places + 4 * i;
      all.push_back({place[0], place[1], place[2], place[3] != 0});
    }
    ronde::jax::Executions::instance().ended_in_error(all, std::span(given, given_count), is_of_argument, started,
                                                      error);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}
