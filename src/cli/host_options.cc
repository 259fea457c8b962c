#include "cli/host_options.h"

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/environment.h"
#include "base/host_name.h"
#include "launch/allocation.h"

namespace ronde::cli {

namespace {

/// Where `ronde` is, as an absolute path.
std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// As the user's shell calls it, if that is still the same folder: what an automounter calls it may be unknown
/// elsewhere.
std::string working_folder() {
  std::error_code ignored;
  const char* const said = std::getenv("PWD");
  if (said != nullptr && *said == '/' && std::filesystem::equivalent(said, ".", ignored)) {
    return said;
  }
  return std::filesystem::current_path(ignored).string();
}

}  // namespace

void add_host_options(CLI::App& command, HostOptions& options) {
  options.interfaces = environment_text("RONDE_SOCKET_IFNAME").value_or(options.interfaces);  // the site may say it
  options.ssh = environment_text("RONDE_SSH").value_or(options.ssh);
  const auto add = [&](const char* names, std::string& value, const char* type, const char* text) {
    return command.add_option(names, value, text)->type_name(type)->group("Several hosts");
  };
  add("-H,--hosts", options.hosts, "HOST:N,...", "where, and how many ranks on each: node1:4,node2:4");
  add("--hostfile", options.hostfile, "FILE",
      "the same from a file: `node1 slots=4`, `node1:4`, $PBS_NODEFILE, or JSON");
  add("--chdir", options.folder, "DIR", "work there on every host (default: this folder)");
  add("--remote-python", options.remote_python, "PATH",
      "of the Python that every host is to use, with Ronde beside it (default: the same paths as here)");
  add("--network-interface", options.interfaces, "NAMES",
      "which network ranks use: eth,ib (names that begin so), =eth0 (that one), ^docker,lo (none that begin so)")
      ->envname("RONDE_SOCKET_IFNAME");
  add("--ssh", options.ssh, "COMMAND", "how to log in: 'ssh -p 2222 -i key'")->envname("RONDE_SSH")->default_str("ssh");
  command.add_option("--start-timeout", options.start_timeout_s, "time for all hosts to be reached and get ready")
      ->type_name("SECONDS")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str()
      ->group("Several hosts");
  command.add_flag("-v,--verbose", options.verbose, "say which address each host's ranks use, and why; or MPI's line")
      ->group("Several hosts");
}

std::vector<launch::HostSlots> hosts_of(const HostOptions& options, int ranks) {
  if (!options.hosts.empty() && !options.hostfile.empty()) {
    throw CLI::ValidationError("--hostfile", "give hosts by -H or by --hostfile, not by both");
  }
  if (options.hosts.empty() && options.hostfile.empty()) {
    return {};
  }
  Result<std::vector<launch::HostSlots>> hosts =
      options.hosts.empty() ? launch::read_host_file(options.hostfile) : launch::parse_hosts(options.hosts);
  if (hosts) {
    hosts = launch::fill_hosts(*hosts, ranks);
  }
  if (!hosts) {
    throw CLI::ValidationError(options.hosts.empty() ? "--hostfile" : "-H", hosts.status().message());
  }
  return std::move(*hosts);
}

std::vector<launch::HostSlots> hosts_of_batch_job(HostOptions& options, int ranks) {
  Result<std::optional<launch::Allocation>> found = launch::allocation_of([](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return std::string(value != nullptr ? value : "");
  });
  if (!found) {
    throw CLI::ValidationError("-H", "none given, and those of the batch job are unclear: " + found.status().message());
  }
  if (!found.value()) {
    return {};
  }
  const launch::Allocation& allocation = *found.value();
  const bool is_here = launch::is_this_host(allocation.hosts.front().name, host_name());
  if (allocation.hosts.size() == 1 && is_here && ranks > 0) {
    return {};  // as many as are asked for, as everywhere
  }
  Result<std::vector<launch::HostSlots>> hosts = launch::fill_hosts(allocation.hosts, ranks);
  if (!hosts) {
    throw CLI::ValidationError("-n", "job " + allocation.number + " of " + allocation.system +
                                         " has too little room: " + hosts.status().message() +
                                         " (-H says where to run instead)");
  }
  if (allocation.system == "Slurm" && options.ssh.empty()) {
    options.way = launch::Login::Way::srun;
  }
  return std::move(*hosts);
}

launch::HostsJob job_on(const HostOptions& options, std::vector<launch::HostSlots> hosts) {
  launch::HostsJob job;
  job.hosts = std::move(hosts);
  job.login.way = options.way;
  if (!options.ssh.empty()) {
    job.login.command = options.ssh;
  }
  job.start_timeout = from_seconds(options.start_timeout_s);
  job.folder = options.folder.empty() ? working_folder() : options.folder;
  job.program = own_program();
  if (!options.remote_python.empty()) {
    job.python_folder = std::filesystem::path(options.remote_python).parent_path().string();
    job.program = job.python_folder + "/ronde";
  }
  job.interfaces = options.interfaces;
  job.explain = options.verbose;
  return job;
}

}  // namespace ronde::cli
