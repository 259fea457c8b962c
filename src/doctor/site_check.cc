#include "doctor/site_check.h"

#include <string>

namespace ronde::doctor {

std::optional<Finding> site_finding(const Result<SiteSettings>& settings) {
  constexpr const char* kSubject = "site settings";
  if (!settings) {
    return Finding{Grade::failure, kSubject, settings.status().message(),
                   "until its owner has mended the file no job begins on this host"};
  }
  if (settings.value().path().empty()) {
    return std::nullopt;
  }
  std::string text;
  for (const auto& [name, value] : settings.value().values()) {
    text += (text.empty() ? "" : ", ") + name + (name == "RONDE_SSH" ? "" : "=" + value);
  }
  return Finding{Grade::notice, kSubject, settings.value().path() + (text.empty() ? " says nothing" : ": " + text), ""};
}

}  // namespace ronde::doctor
