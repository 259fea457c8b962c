#include "doctor/ofi_check.h"

#include <algorithm>

#include "doctor/library_look.h"
#include "ofi/library.h"
#include "ofi/providers.h"

namespace ronde::doctor {

namespace {

/// What the process that opens the library says: one of these, and a text.
constexpr char kUsableOfi = 'u', kUselessOfi = 'n';
constexpr const char* kWhat = "libfabric";

std::string look_at_libfabric() {
  const Result<ofi::OfiLibrary> library = ofi::OfiLibrary::open();
  if (!library) {
    return kUselessOfi + library.status().message();
  }
  const Result<std::vector<std::string>> names = ofi::provider_names(library.value());
  if (!names) {
    return kUselessOfi + library.value().name() + ": " + names.status().message();
  }
  const bool is_usable =
      std::ranges::any_of(names.value(), [](const std::string& name) { return ofi::refusal(name).empty(); });
  return (is_usable ? kUsableOfi : kUselessOfi) + library.value().name() + "; " + about_providers(names.value());
}

}  // namespace

std::string about_providers(const std::vector<std::string>& names) {
  std::string taken, others, refused;
  for (const std::string& name : names) {
    if (const std::string_view why = ofi::refusal(name); !why.empty()) {
      refused += (refused.empty() ? "" : "; ") + name + ": " + std::string(why);
      continue;
    }
    others += (others.empty() ? "" : ", ") + name + (ofi::is_tested(name) ? "" : " (untested)");
    if (ofi::preference(name) >= 0 && (taken.empty() || ofi::preference(name) < ofi::preference(taken))) {
      taken = name;
    }
  }
  return "RONDE_TRANSPORT=ofi takes " + (taken.empty() ? "none by itself" : taken) + ", of " +
         (others.empty() ? "none" : others) + (refused.empty() ? "" : "; not used are " + refused);
}

void add_ofi(HostReport& report) {
  const std::string said = look_apart(look_at_libfabric);
  if (said.empty()) {
    report.findings.push_back({Grade::notice, kWhat,
                               ofi::library_file() + " ends or holds up the process that opens it",
                               "RONDE_TRANSPORT=ofi cannot use it here"});
  } else if (said[0] == kUsableOfi) {
    report.findings.push_back({Grade::ok, kWhat, said.substr(1), ""});
  } else {
    report.findings.push_back({Grade::notice, kWhat, said.substr(1), "none is needed, but for RONDE_TRANSPORT=ofi"});
  }
}

}  // namespace ronde::doctor
