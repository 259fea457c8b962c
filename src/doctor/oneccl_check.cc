#include "doctor/oneccl_check.h"

#include <string>

#include "doctor/library_look.h"
#include "oneccl/library.h"

namespace ronde::doctor {

namespace {

/// What the process that opens the library says: one of these, and a text.
constexpr char kUsableOneCcl = 'u', kUselessOneCcl = 'n';

std::string look_at_oneccl() {
  const Result<oneccl::OneCclLibrary> library = oneccl::OneCclLibrary::open();
  if (!library) {
    return kUselessOneCcl + library.status().message();
  }
  // It finds its own parts only now.
  oneccl::UniqueId id;
  if (library.value().functions().unique_id(&id) != 0) {
    return kUselessOneCcl + library.value().error(library.value().name() + ": onecclGetUniqueId()").message();
  }
  return kUsableOneCcl + library.value().name() + "; backend oneccl can use it";
}

}  // namespace

void add_oneccl(HostReport& report) {
  const std::string said = look_apart(look_at_oneccl);
  if (said.empty()) {
    report.findings.push_back({Grade::notice, "oneCCL", "it ends or holds up the process that opens it",
                               "RONDE_BACKEND=oneccl cannot use it here"});
  } else if (said[0] == kUsableOneCcl) {
    report.findings.push_back({Grade::ok, "oneCCL", said.substr(1), ""});
  } else {
    report.findings.push_back(
        {Grade::notice, "oneCCL", said.substr(1), "none is needed, but for RONDE_BACKEND=oneccl"});
  }
}

}  // namespace ronde::doctor
