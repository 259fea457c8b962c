// StagedBackend: what somebody else's library can do goes through it, the rest through the backend within. Ranks agree
// by Ronde's own connections, so all that agreement promises holds.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/staged/collective_library.h"

namespace ronde::backend {

/// `within`: of the same ranks.
std::unique_ptr<Backend> make_staged_backend(std::unique_ptr<Backend> within,
                                             std::shared_ptr<CollectiveLibrary> library);

}  // namespace ronde::backend
