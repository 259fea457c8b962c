#include "launch/local_job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <memory>

#include "base/core_set.h"
#include "base/cores.h"
#include "base/host_name.h"
#include "base/job_key.h"
#include "base/unique_fd.h"
#include "launch/ending.h"
#include "launch/environment.h"
#include "launch/guarded_host.h"
#include "launch/guardian.h"
#include "launch/launcher_process.h"
#include "launch/process_tree.h"
#include "launch/rank_output.h"
#include "launch/signal_watch.h"
#include "launch/supervisor.h"
#include "store/private_folder.h"
#include "store/store_server.h"

namespace ronde::launch {

namespace {

/// Rank 0 reads what the launcher would read; but a job in the background must not steal the shell's input.
bool input_is_ours() { return ::isatty(STDIN_FILENO) == 0 || ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

std::vector<RankStart> make_starts(const LocalJob& job, const JobFacts& facts) {
  const std::vector<std::string> inherited = own_environment();
  const CoresByNode cores = cores_by_node(CoreSet::of_this_thread().cores());
  std::vector<RankStart> starts(static_cast<std::size_t>(job.ranks));
  for (int rank = 0; rank < job.ranks; ++rank) {
    RankStart& start = starts[static_cast<std::size_t>(rank)];
    start.rank = rank;
    start.cores = cores_of_rank(job.binding, cores, rank, job.ranks);
    start.environment =
        job.starts_ranks ? launcher_environment(inherited, job.settings)
                         : rank_environment(inherited, job.settings, {rank, job.ranks, rank, job.ranks, 0, 1}, facts);
    if (rank != 0 || !input_is_ours()) {
      start.input.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
  }
  return starts;
}

JobFacts make_facts(const LocalJob& job, const std::string& socket_path, const JobKey& key) {
  return {.store = "unix:" + socket_path,
          .key = to_hex(key),
          .host = host_name(),
          .master_port = free_port(),
          .threads = threads_per_rank(affinity_cores(), cgroup_quota(), job.ranks),
          .master_address = "127.0.0.1",
          .address = {}};
}

Result<JobEnd> run(const LocalJob& job) {
  open_standard_descriptors();
  const ManyOpenFiles open_files;
  SignalWatch signals({SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2});
  ::signal(SIGCHLD, SIG_DFL);  // ignored by some parents, and then no end of a child could be waited for
  // Orphans come here if the guardian is killed.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<pid_t> children;
  for (const Process& process : descendants(list_processes(), ::getpid())) {
    children.push_back(process.pid);
  }

  RONDE_ASSIGN_OR_RETURN(const JobKey key, make_job_key());
  RONDE_ASSIGN_OR_RETURN(const store::PrivateFolder folder, store::PrivateFolder::create());
  const std::string socket_path = folder.path() + "/store";
  RONDE_ASSIGN_OR_RETURN(UniqueFd listener, store::listen_unix(socket_path));
  UniqueFd beside = store::listen_beside(socket_path);
  GuardianPlan plan{.command = job.command,
                    .ranks = make_starts(job, make_facts(job, socket_path, key)),
                    .open_files = open_files.before(),
                    .folder = folder.path(),
                    .close = {}};
  RONDE_ASSIGN_OR_RETURN(const std::unique_ptr<RankOutput> output,
                         RankOutput::open(plan.ranks, {.prefix = job.prefix, .folder = job.output_folder}));
  plan.close = output->readers();
  plan.close.push_back(listener.get());
  if (beside.is_open()) {
    plan.close.push_back(beside.get());
  }
  plan.close.push_back(signals.fd());
  // Forked before the store's thread exists. The ranks may connect before it serves: they wait in the backlog.
  RONDE_ASSIGN_OR_RETURN(Guardian guardian, start_guardian(plan));
  plan.ranks.clear();  // the writing ends: who reads must see the end when the ranks have closed theirs
  // From here the guardian cleans up if this fails: it sees the channel close.
  RONDE_ASSIGN_OR_RETURN(const std::unique_ptr<store::StoreServer> server,
                         store::StoreServer::start(std::move(listener), key, {}, std::move(beside)));
  std::vector<std::unique_ptr<RankHost>> hosts;
  hosts.push_back(std::make_unique<GuardedHost>(std::move(guardian), std::move(children), folder.path()));
  return Supervisor(
             {.program = job.command[0], .ranks = job.ranks, .grace = job.grace, .starts_ranks = job.starts_ranks},
             std::move(hosts), *output, signals)
      .run();
}

}  // namespace

JobEnd run_local_job(const LocalJob& job) {
  Result<JobEnd> end = run(job);
  return end ? std::move(end).value() : JobEnd{kLauncherExit, "cannot start the job: " + end.status().message()};
}

}  // namespace ronde::launch
