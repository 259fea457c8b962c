#include "launch/mpi_job.h"

#include <algorithm>
#include <string_view>

#include "launch/hosts_job.h"
#include "launch/launcher_process.h"
#include "launch/local_job.h"
#include "launch/program_output.h"
#include "launch/program_path.h"

namespace ronde::launch {

namespace {

constexpr Nanoseconds kAnswerLimit = 20 * kSecond;
/// The last are Debian's names, which has several side by side.
constexpr const char* kNames[] = {"mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.hydra", "mpiexec.mpich"};

Result<MpiLauncher> ask(const std::string& program) {
  return mpi_launcher_of(program, output_of({program, "--version"}, kAnswerLimit, true));
}

}  // namespace

Result<MpiLauncher> find_mpi_launcher(const std::string& named, bool prefers_srun,
                                      const std::vector<std::string>& environment) {
  if (!named.empty()) {
    if (const auto failure = check_program(named, environment)) {
      return Status::error(Code::invalid_argument, failure->sentence);
    }
    return ask(named);
  }
  if (prefers_srun && !check_program("srun", environment)) {
    return ask("srun");
  }
  std::string tried;
  for (const char* const name : kNames) {
    if (!check_program(name, environment)) {
      Result<MpiLauncher> launcher = ask(name);
      if (launcher) {
        return launcher;
      }
      tried += "; " + launcher.status().message();
    }
  }
  return Status::error(Code::not_implemented,
                       "no launcher of an MPI is in PATH (mpirun, mpiexec" + tried +
                           "): load the site's MPI, or say where its mpirun is by --mpi-launcher");
}

std::vector<std::string> srun_connection(const std::vector<std::string>& options,
                                         const std::vector<std::string>& environment) {
  const bool is_said = std::any_of(options.begin(), options.end(), [](const std::string& option) {
    return option == "--mpi" || option.starts_with("--mpi=");
  });
  if (is_said || !variable_of(environment, "SLURM_MPI_TYPE").empty()) {
    return {};
  }
  const std::string site = output_of({"scontrol", "show", "config"}, kAnswerLimit);
  const std::size_t at = site.find("MpiDefault");
  if (at == std::string::npos || site.substr(at, site.find('\n', at) - at).find("none") == std::string::npos) {
    return {};
  }
  const std::string kinds = output_of({"srun", "--mpi=list"}, kAnswerLimit, true);
  for (const char* const kind : {"pmix", "pmi2"}) {
    if (kinds.find(kind) != std::string::npos) {
      return {std::string("--mpi=") + kind};
    }
  }
  return {};
}

std::vector<std::string> carried_names(const std::vector<std::string>& settings) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& setting) { names.push_back(setting.substr(0, setting.find('='))); };
  const std::vector<std::string> portable = portable_environment(own_environment());
  std::for_each(portable.begin(), portable.end(), add);
  std::for_each(settings.begin(), settings.end(), add);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

JobEnd run_mpi_job(const std::vector<std::string>& line, const std::vector<std::string>& settings, Nanoseconds grace) {
  LocalJob job;
  job.command = line;
  job.settings = settings;
  job.grace = grace;
  job.starts_ranks = true;
  return run_local_job(job);
}

}  // namespace ronde::launch
