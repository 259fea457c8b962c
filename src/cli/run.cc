#include "cli/run.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/host_name.h"
#include "base/site_settings.h"
#include "cli/help/help.h"
#include "cli/host_options.h"
#include "cli/run_mpi.h"
#include "launch/environment.h"
#include "launch/hosts_job.h"
#include "launch/local_job.h"

namespace ronde::cli {

namespace {

constexpr int kMaxRanks = 4096;  ///< that a store serves

constexpr const char* kAbout =
    "Starts N ranks of a command, on this machine or several, shows what they print, ends with them";

constexpr const char* kFooter = R"(Examples:
  ronde run -n 2 -- python train.py --epochs 3
  ronde run -n 4 --output-dir logs -- bash -c 'python train.py 2>&1 | tee -a all.log'
  ronde run -n 2 --env OMP_NUM_THREADS=4 -- ./build/linear_regression
  ronde run -H node1:4,node2:4 -- python train.py
  ronde run --backend mpi -n 4 --mpi-args '--mca pml ob1' -- python train.py
  sbatch -N 2 --ntasks-per-node 4 --wrap 'ronde run -- python train.py'

Several hosts: ssh must let you in without a password (to try: ssh -o BatchMode=yes node2 true), and every host needs the
same Ronde, Python and scripts at the same paths (a shared file system, or a container). Ranks get this command's
environment, but for what belongs to its host or login (HOME, TMPDIR, SSH_*, XDG_*, ...). The job's key goes over ssh's standard
input. Ranks connect to each other by TCP and prove the key; the rest, their store included, goes over ssh. All ranks of a
host end when the connection to this command does.

In a batch job of Slurm, PBS or LSF the hosts and their ranks come from the job unless -H or --hostfile says others, and -n
takes the first N of its places; Slurm's hosts are reached by srun (with --ssh or RONDE_SSH: by that).

Through MPI (--backend mpi) ranks are started by mpirun, mpiexec or srun, whose line -v shows. They get their places from it,
not the variables below; prefixes of lines, exit codes and what else is said of ranks that fail are that launcher's. However
this command ends, no process of the job is left on this machine.

Environment of each rank:
  RONDE_RANK RONDE_SIZE RONDE_LOCAL_RANK RONDE_LOCAL_SIZE RONDE_CROSS_RANK RONDE_CROSS_SIZE
                       its place in the job
  RONDE_STORE RONDE_KEY
                       where the ranks meet (a Unix socket of this user's), and the job's secret
  RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT
                       the same for torch.distributed; nothing of Ronde listens at the port, which was free
  HOROVOD_RANK HOROVOD_SIZE HOROVOD_LOCAL_RANK ... HOROVOD_HOSTNAME
                       the same for scripts that ask Horovod's variables
  PYTHONUNBUFFERED=1   unless set
  OMP_NUM_THREADS      the rank's equal share of the cores (affinity and cgroup quota), unless set

Output: with several ranks each line begins with [rank] and is never mixed with another. Rank 0's progress bars and
prompts appear as it prints them; of the other ranks finished lines only. A line of more than 16 MiB is cut into several.
With one rank here the program keeps the terminal.
If nobody takes the output, ranks that print wait, as in any pipe. Standard input goes to rank 0 of a job on this machine.

Stopping: when a rank fails, the others have --grace seconds to report and end by themselves, then get SIGTERM, and
after as long again SIGKILL. Ctrl-C once asks the ranks to stop (SIGINT, then the same), twice kills them. SIGTERM and
SIGHUP go on as SIGTERM; SIGUSR1 and SIGUSR2 are passed to the ranks. What ranks leave running (workers, daemons) is
ended within a second after the last rank. However this command ends, kill -9 included, no process of the job is left.

Exit codes:
  0          every rank ended with 0
  1 to 255   that of the rank that failed first (128 + N if signal N killed it)
  130, 143   stopped by Ctrl-C, by SIGTERM (128 + the signal)
  2          wrong usage
  125        the launcher itself failed, or a host could not be reached or was lost
  126, 127   the command cannot be run, was not found)";

struct Arguments {
  launch::LocalJob job;
  double grace_s = 5;
  bool no_prefix = false;
  HostOptions where;
  std::string carried;
  std::string binding = "none";
  std::string mapping = "slot";
  MpiOptions mpi;
};

template <typename Value>
Value parsed(const char* option, Result<Value> value) {
  if (!value) {
    throw CLI::ValidationError(option, value.status().message());
  }
  return value.value();
}

launch::HostsJob on_hosts(const Arguments& arguments, std::vector<launch::HostSlots> hosts) {
  launch::HostsJob job = job_on(arguments.where, std::move(hosts));
  job.command = arguments.job.command;
  job.grace = arguments.job.grace;
  job.output_folder = arguments.job.output_folder;
  job.prefix = arguments.job.prefix;
  job.settings = arguments.job.settings;
  job.carried = arguments.carried;
  job.binding = arguments.job.binding;
  job.mapping = parsed("--map-by", launch::parse_mapping(arguments.mapping));
  return job;
}

/// What MPI's launchers are told in words of their own, if at all.
void refuse_what_mpi_has_not(const Arguments& arguments) {
  const auto refuse = [](const char* option, bool is_given) {
    if (is_given) {
      throw CLI::ValidationError(option,
                                 "not with --backend mpi, whose ranks MPI's launcher starts: say it in its "
                                 "words, by --mpi-args");
    }
  };
  refuse("--carry", !arguments.carried.empty());
  refuse("--map-by", arguments.mapping != "slot");
  refuse("--remote-python", !arguments.where.remote_python.empty());
}

int run(Arguments& arguments) {
  if (!site_settings()) {
    throw CLI::ValidationError("settings", site_settings().status().message());
  }
  arguments.job.grace = from_seconds(arguments.grace_s);
  arguments.job.prefix = !arguments.no_prefix;
  arguments.job.binding = parsed("--bind-to", launch::parse_binding(arguments.binding));
  std::vector<launch::HostSlots> hosts = hosts_of(arguments.where, arguments.job.ranks);
  if (hosts.empty()) {
    hosts = hosts_of_batch_job(arguments.where, arguments.job.ranks);
  }
  if (hosts.empty() && arguments.job.ranks == 0) {
    throw CLI::ValidationError("-n", "how many ranks? Say it with -n N, or which hosts with -H node1:4,node2:4");
  }
  if (arguments.mpi.backend != "own" || environment_text("RONDE_BACKEND")) {  // else the site's word would count
    arguments.job.settings.insert(arguments.job.settings.begin(), "RONDE_BACKEND=" + arguments.mpi.backend);
  }
  launch::JobEnd end;
  if (arguments.mpi.backend == "mpi") {
    refuse_what_mpi_has_not(arguments);
    end = run_by_mpi(arguments.mpi, arguments.where, std::move(hosts), arguments.job);
  } else if (hosts.empty() || (hosts.size() == 1 && launch::is_this_host(hosts[0].name, host_name()))) {
    arguments.job.ranks = hosts.empty() ? arguments.job.ranks : hosts[0].slots;
    if (arguments.job.ranks > launch::kMaxLocalRanks) {
      throw CLI::ValidationError("-n", "at most " + std::to_string(launch::kMaxLocalRanks) + " ranks on a host");
    }
    end = launch::run_local_job(arguments.job);
  } else {
    end = launch::run_hosts_job(on_hosts(arguments, std::move(hosts)));
  }
  if (!end.sentence.empty()) {
    std::fprintf(stderr, "ronde: %s\n", end.sentence.c_str());
  }
  return end.exit_code;
}

std::string check_setting(const std::string& setting) {
  const Status status = launch::check_setting(setting);
  return status.message();
}

}  // namespace

void add_run_command(CLI::App& app, const std::vector<std::string>& after_dashes) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const command = app.add_subcommand("run", kAbout);
  command->formatter(std::make_shared<HelpFormatter>("run -n N [-H HOST:N,...] [OPTIONS] -- COMMAND [ARGUMENTS...]"));
  command->footer(kFooter);
  arguments->job.ranks = 0;
  command
      ->add_option("-n,--ranks", arguments->job.ranks,
                   "how many ranks to start (default with hosts, or in a batch job: all they take)")
      ->type_name("N")
      ->check(CLI::Range(1, kMaxRanks));
  add_host_options(*command, arguments->where);
  command
      ->add_option("--carry", arguments->carried,
                   "copy its files to a folder on every host, RONDE_CARRIED_FOLDER, and what ranks add there back")
      ->type_name("DIR")
      ->group("Several hosts");
  command->add_option("--map-by", arguments->mapping, "how ranks are numbered: slot (host by host) or node (in turn)")
      ->type_name("WAY")
      ->capture_default_str()
      ->group("Several hosts");
  command
      ->add_option(
          "--bind-to", arguments->binding,
          "cores of each rank: none (any), core (its equal share of the host's), numa (those of one NUMA node)")
      ->type_name("WHAT")
      ->capture_default_str();
  command->add_option("--grace", arguments->grace_s, "time for ranks to end by themselves, before and after SIGTERM")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--output-dir", arguments->job.output_folder, "also write DIR/rank.N/stdout and stderr")
      ->type_name("DIR");
  command->add_option("--env", arguments->job.settings, "set a variable for every rank; may be given several times")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Validator(check_setting, "", ""));
  add_mpi_options(*command, arguments->mpi);
  command->add_flag("--no-prefix", arguments->no_prefix, "do not put [rank] in front of lines");
  command->prefix_command();  // the first word that is no option begins the command
  command->callback([command, arguments, after_dashes] {
    std::vector<std::string>& words = arguments->job.command;
    words = command->remaining();
    if (!words.empty() && words.front().starts_with('-')) {
      throw CLI::ExtrasError({words.front()});  // a mistyped option is no command
    }
    // `run -- git log` or `run git log -- file`: only the first -- of all may be ours.
    words.insert(words.end(), after_dashes.begin() + (words.empty() && !after_dashes.empty() ? 1 : 0),
                 after_dashes.end());
    if (words.empty()) {
      throw CLI::ValidationError("COMMAND", "none given; for example: ronde run -n 2 -- python train.py");
    }
    throw CLI::RuntimeError(run(*arguments));
  });
}

}  // namespace ronde::cli
