// The operations that hand requests to the engine.
#pragma once

#include "attributes.h"
#include "run.h"

namespace ronde::tf {

/// RondeStart: results have the shapes of the tensors.
void compute_start(Run& run, const Attributes& attributes);
/// RondeStartRows: results have shapes that are known at the end only.
void compute_start_rows(Run& run, const Attributes& attributes);

}  // namespace ronde::tf
