// From the C interface's structs to the engine's values, every field checked.
#pragma once

#include "engine/process/world.h"
#include "ronde/ronde.h"
#include "types/request.h"

namespace ronde::api {

/// Whether it can be read at all.
Status check_request(const ronde_request* request);
/// `runner`: whose group's limit a request without one of its own gets.
Result<Request> request_from(const ronde_request* request, const engine::Runner& runner);
Result<engine::JoinOptions> options_from(const ronde_options* options);

}  // namespace ronde::api
