#include "launch/login.h"

namespace ronde::launch {

std::string quoted(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

namespace {

std::vector<std::string> by_ssh(const Login& login, const std::string& host, const std::string& program) {
  // The user's words are a shell's, as those of GIT_SSH_COMMAND; ours come behind as they are.
  return {"/bin/sh",
          "-c",
          "exec " + login.command + " \"$@\"",
          "ssh",
          "-T",
          "-x",
          "-o",
          "BatchMode=yes",
          "-o",
          "ConnectTimeout=" + std::to_string(login.connect_timeout_s),
          "-o",
          "ServerAliveInterval=5",
          "-o",
          "ServerAliveCountMax=3",
          "--",
          host,
          "exec " + quoted(program) + " agent"};
}

/// A step of one task that shares the host's cores with whatever runs there, the batch script included, and is bound to
/// none: the ranks are to have them all.
std::vector<std::string> by_srun(const std::string& host, const std::string& program) {
  std::vector<std::string> words = {"srun",       "--overlap",       "--nodes=1",    "--ntasks=1", "--nodelist=" + host,
                                    "--mpi=none", "--cpu-bind=none", "--export=ALL", "env"};
  // Programs take these for their own place in the job, and each agent is task 0 of 1.
  for (const char* name : {"PROCID", "LOCALID", "NODEID", "GTIDS", "TASK_PID", "STEPID", "STEP_ID", "STEP_NODELIST",
                           "STEP_NUM_NODES", "STEP_NUM_TASKS", "STEP_TASKS_PER_NODE"}) {
    words.insert(words.end(), {"-u", std::string("SLURM_") + name});
  }
  words.insert(words.end(), {program, "agent"});
  return words;
}

}  // namespace

std::vector<std::string> login_command(const Login& login, const std::string& host, const std::string& program) {
  return login.way == Login::Way::srun ? by_srun(host, program) : by_ssh(login, host, program);
}

std::string trial_of(const Login& login, const std::string& host) {
  return login.way == Login::Way::srun ? "srun --overlap -N1 -n1 -w " + host + " true"
                                       : "ssh -o BatchMode=yes " + host + " true";
}

bool is_this_host(std::string_view name, std::string_view own) {
  return name == "localhost" || name == "::1" || name.starts_with("127.") || name == own ||
         name == own.substr(0, own.find('.'));
}

}  // namespace ronde::launch
