#include "cli/run_mpi.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/environment.h"
#include "base/host_name.h"
#include "launch/allocation.h"
#include "launch/launcher_process.h"
#include "launch/mpi_job.h"

namespace ronde::cli {

namespace {

template <typename Value>
Value or_throw(const char* option, Result<Value> value) {
  if (!value) {
    throw CLI::ValidationError(option, value.status().message());
  }
  return std::move(value).value();
}

bool is_in_slurm() {
  const Result<std::optional<launch::Allocation>> found = launch::allocation_of([](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return std::string(value != nullptr ? value : "");
  });
  return found && found.value() && found.value()->system == "Slurm";
}

}  // namespace

void add_mpi_options(CLI::App& command, MpiOptions& options) {
  options.backend = environment_text("RONDE_BACKEND").value_or(options.backend);  // the site may say it
  options.launcher = environment_text("RONDE_MPI_LAUNCHER").value_or(options.launcher);
  command
      .add_option(
          "--backend", options.backend,
          "own, oneccl (data moves through Intel's oneCCL), or mpi: ranks are started by an MPI's launcher, and "
          "move data through that MPI")
      ->envname("RONDE_BACKEND")
      ->type_name("NAME")
      ->check(CLI::IsMember({"own", "mpi", "oneccl"}))
      ->capture_default_str()
      ->group("Through a library");
  command
      .add_option("--mpi-launcher", options.launcher,
                  "its mpirun or mpiexec, or srun (default: srun in a job of Slurm's, else the first of PATH)")
      ->envname("RONDE_MPI_LAUNCHER")
      ->type_name("PATH")
      ->group("Through MPI");
  command.add_option("--mpi-args", options.more, "more options of that launcher: '--mca pml ob1'")
      ->type_name("WORDS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Through MPI");
}

launch::JobEnd run_by_mpi(const MpiOptions& options, const HostOptions& where, std::vector<launch::HostSlots> hosts,
                          const launch::LocalJob& job) {
  const std::vector<std::string> environment = launch::own_environment();
  const bool names_hosts = !where.hosts.empty() || !where.hostfile.empty();
  const launch::MpiLauncher launcher = or_throw(
      "--mpi-launcher", launch::find_mpi_launcher(options.launcher, !names_hosts && is_in_slurm(), environment));
  std::vector<std::string> settings = job.settings;
  settings.insert(settings.begin(), "RONDE_BACKEND=mpi");
  if (!where.interfaces.empty()) {
    settings.push_back("RONDE_SOCKET_IFNAME=" + where.interfaces);
  }
  launch::MpiJob ranks{.command = job.command,
                       .ranks = job.ranks,
                       .hosts = std::move(hosts),
                       .binding = job.binding,
                       .prefix = job.prefix,
                       .is_root = ::geteuid() == 0,
                       .folder = where.folder,
                       .ssh = where.ssh,
                       .output_folder = job.output_folder,
                       .variables = launch::carried_names(settings)};
  for (const std::string& text : options.more) {
    for (std::string& word : or_throw("--mpi-args", launch::split_words(text))) {
      ranks.options.push_back(std::move(word));
    }
  }
  if (launcher.kind == launch::MpiKind::srun) {
    const std::vector<std::string> connection = launch::srun_connection(ranks.options, environment);
    ranks.options.insert(ranks.options.begin(), connection.begin(), connection.end());
  }
  if (!ranks.hosts.empty()) {
    ranks.ranks = 0;
    for (const launch::HostSlots& host : ranks.hosts) {
      ranks.ranks += host.slots;
    }
  }
  if (ranks.hosts.size() == 1 && launch::is_this_host(ranks.hosts.front().name, host_name())) {
    ranks.hosts.clear();
  }
  const std::vector<std::string> line = or_throw("--backend mpi", launch::mpi_line(launcher, ranks));
  if (where.verbose) {
    std::fprintf(stderr, "ronde: %s: %s\n", launcher.version.c_str(), launch::joined(line).c_str());
  }
  return launch::run_mpi_job(line, settings, job.grace);
}

}  // namespace ronde::cli
