// From the C interface's structs to the engine's values, every field checked.
#pragma once

#include "engine/world.h"
#include "ronde/ronde.h"
#include "types/request.h"

namespace ronde::api {

/// `engine_timeout` is what a request without a limit of its own gets.
Result<Request> request_from(const ronde_request* request, Nanoseconds engine_timeout);
Result<engine::JoinOptions> options_from(const ronde_options* options);

}  // namespace ronde::api
