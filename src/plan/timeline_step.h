// The step that a timeline of Ronde's has recorded (docs/timeline.md).
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "plan/step.h"

namespace ronde::plan {

/// Of one rank's timeline, the text of the file `path`: of the buckets and tensors that came back step after step, each
/// with the median of its times. A step is from the first bucket's being full to the same moment of the next step. What
/// a rank computes in it is what is left without the time between the last bucket's being full and the end of the last.
/// INVALID_ARGUMENT if it is no timeline, or has no three whole steps in a row.
Result<Step> parse_timeline(std::string_view text, const std::string& path);
Result<Step> read_timeline(const std::string& path);

}  // namespace ronde::plan
