// Threads that wait for requests in place of TensorFlow's, of which a program may have no more than one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "flights.h"

namespace ronde::tf {

using Flights = std::vector<std::shared_ptr<Flight>>;

/// Has a thread of the library's own wait until all of these requests have ended, which drives their work as
/// ronde_wait_any() does, and then run `then`, which must not throw. Returns at once; any thread. False, and nothing
/// happens, where there is no memory or no thread for it.
bool wait_elsewhere(const Flights& flights, std::function<void()> then) noexcept;

}  // namespace ronde::tf
