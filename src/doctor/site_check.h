// What the site says for every job (base/site_settings.h), as `ronde doctor` reports it.
#pragma once

#include <optional>

#include "base/site_settings.h"
#include "doctor/finding.h"

namespace ronde::doctor {

/// A failure where the file cannot be read or says what it cannot; nothing where there is none. No command to log in
/// by is shown: it may hold a secret.
std::optional<Finding> site_finding(const Result<SiteSettings>& settings);

}  // namespace ronde::doctor
