#include "doctor/python_check.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "launch/launcher_process.h"
#include "launch/program_output.h"
#include "launch/program_path.h"

namespace ronde::doctor {

namespace {

constexpr Nanoseconds kPythonLimit = 135 * kSecond;

/// Versions are read, not imported. Frameworks are tried all at once, each for 120 s at most (a cold TensorFlow on a
/// busy host was seen to need more than 60), also where no framework answers in time below kPythonLimit.
constexpr const char* kProgram = R"(
import importlib.metadata as m, json, sys
found = {}
for name, *others in (("torch",), ("tensorflow", "tensorflow-cpu", "tensorflow-cpu-aws", "tensorflow-rocm", "tf-nightly"),
                      ("keras",), ("jax",), ("numpy",), ("horovod",), ("ronde",)):
    for each in (name, *others):
        try:
            found.setdefault(name, m.version(each))
        except m.PackageNotFoundError:
            pass
failure = ""
tried = {}
try:
    import ronde
    from ronde._lib import library
    library()
    from ronde._doctor import tried as try_all
    tried = try_all(found, 120)
except BaseException as error:
    failure = f"{type(error).__name__}: {error}"
print(json.dumps({"python": sys.version.split()[0], "path": sys.executable, "packages": found, "failure": failure,
                  "tried": tried}))
)";

/// `tried`: of each framework why it does not work; empty if it does.
void add_frameworks(const nlohmann::json& tried, HostReport& report) {
  std::string working;
  for (const auto& [name, failure] : tried.items()) {
    if (!failure.is_string()) {
      continue;
    }
    if (failure.get<std::string>().empty()) {
      working += (working.empty() ? "" : ", ") + name;
    } else {
      report.findings.push_back(
          {Grade::warning, name, "does not work with Ronde here: " + failure.get<std::string>(),
           "scripts that use it will fail; try `python -c 'import " + name + ", ronde." + name + "'`"});
    }
  }
  if (!working.empty()) {
    report.findings.push_back({Grade::ok, "frameworks", working + " work with Ronde: each was tried", ""});
  }
}

}  // namespace

void add_python(HostReport& report) {
  const std::vector<std::string> environment = launch::own_environment();
  const std::string python = !launch::check_program("python", environment) ? "python" : "python3";
  if (launch::check_program(python, environment)) {
    report.findings.push_back({Grade::notice, "Python", "is in no folder of PATH", "C and C++ programs need none"});
    return;
  }
  const nlohmann::json said =
      nlohmann::json::parse(launch::output_of({python, "-c", kProgram}, kPythonLimit), nullptr, false);
  if (!said.is_object() || !said.contains("packages") || !said["packages"].is_object()) {
    report.findings.push_back(
        {Grade::warning, "Python", "'" + python + "' did not answer", "try `" + python + " -c 'import ronde'`"});
    return;
  }
  report.python = said.value("python", "");
  std::string frameworks;
  bool has_ronde = false;
  for (const auto& [name, version] : said["packages"].items()) {
    if (version.is_string()) {
      report.packages.push_back({name, version.get<std::string>()});
      has_ronde |= name == "ronde";
      frameworks += (frameworks.empty() ? "" : ", ") + name + " " + version.get<std::string>();
    }
  }
  report.findings.push_back({Grade::ok, "Python", report.python + ", " + said.value("path", ""), ""});
  report.findings.push_back({Grade::ok, "packages", frameworks.empty() ? "no framework" : frameworks, ""});
  if (const std::string failure = said.value("failure", ""); !failure.empty()) {
    report.findings.push_back({has_ronde ? Grade::failure : Grade::warning, "import ronde", failure,
                               "this Python runs no script that uses Ronde: install the wheel in it, or put the right "
                               "one first in PATH"});
  }
  if (said.contains("tried") && said["tried"].is_object()) {
    add_frameworks(said["tried"], report);
  }
}

}  // namespace ronde::doctor
