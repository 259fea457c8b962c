// Environment variables as numbers: absent, well formed, or an error that names variable, value and expectation.
//
// A RONDE_* variable that is not set may be said by its forerunner of Horovod's, HOROVOD_*: the table in
// environment.cc. Else the site may say it (base/site_settings.h); while its file cannot be read, it says nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace ronde {

/// Whether a variable of the environment says it, not the site.
bool environment_says(const char* name);
/// Empty string counts as absent.
std::optional<std::string> environment_text(const char* name);
/// A finite decimal number >= minimum.
Result<std::optional<double>> environment_number(const char* name, double minimum);
/// A whole number from minimum to maximum.
Result<std::optional<std::int64_t>> environment_integer(const char* name, std::int64_t minimum, std::int64_t maximum);

}  // namespace ronde
