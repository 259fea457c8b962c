#include "doctor/mpi_check.h"

#include <filesystem>
#include <set>

#include "doctor/library_look.h"
#include "launch/launcher_process.h"
#include "launch/mpi_job.h"
#include "mpi/library.h"

namespace ronde::doctor {

namespace {

/// What the process that opens a library says: one of these, and a text.
constexpr char kUsable = 'u', kMissing = 'm', kUseless = 'n';

std::string look_at(const std::string& file) {
  const Result<mpi::MpiLibrary> library = mpi::MpiLibrary::open(file);
  if (library) {
    return kUsable + library.value().name() + "; its interface is " + std::string(mpi::name_of(library.value().abi()));
  }
  return (library.status().code() == Code::invalid_argument ? kMissing : kUseless) + library.status().message();
}

/// Of "VERSION in FILE; ...": by which names the loader may call one file is its business.
std::string place_of(const std::string& said) {
  const std::size_t begin = said.find(" in /");
  const std::size_t end = said.find(';', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) {
    return said;
  }
  std::error_code ignored;
  return std::filesystem::weakly_canonical(said.substr(begin + 4, end - begin - 4), ignored).string();
}

}  // namespace

void add_mpi_libraries(const std::vector<std::string>& files, HostReport& report) {
  std::set<std::string> seen;
  for (const std::string& file : files) {
    const std::string said = look_apart([&] { return look_at(file); });
    if (said.empty()) {
      report.findings.push_back({Grade::notice, "MPI library", file + " ends or holds up the process that opens it",
                                 "backend mpi cannot use it here"});
    } else if (said[0] == kUsable && seen.insert(place_of(said)).second) {
      report.findings.push_back({Grade::ok, "MPI library", said.substr(1) + "; backend mpi can use it", ""});
    } else if (said[0] == kUseless && seen.insert(said).second) {
      report.findings.push_back(
          {Grade::notice, "MPI library", file + " cannot be used: " + said.substr(1), "backend mpi needs another"});
    }
  }
  if (seen.empty()) {
    report.findings.push_back({Grade::notice, "MPI library", "none is found",
                               "none is needed, but for --backend mpi; RONDE_MPI_LIBRARY may name one"});
  }
}

void add_mpi(HostReport& report) {
  add_mpi_libraries(mpi::library_files(), report);
  const Result<launch::MpiLauncher> launcher = launch::find_mpi_launcher("", false, launch::own_environment());
  if (launcher) {
    report.findings.push_back(
        {Grade::ok, "MPI launcher", launcher.value().program + " is " + launcher.value().version, ""});
  } else {
    report.findings.push_back(
        {Grade::notice, "MPI launcher", launcher.status().message(), "`ronde run` without --backend mpi needs none"});
  }
}

}  // namespace ronde::doctor
