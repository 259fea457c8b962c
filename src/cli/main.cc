// The command `ronde`: one file or folder per subcommand, each offering `void add_<name>_command(CLI::App&, ...)`.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/agent.h"
#include "cli/bench/bench.h"
#include "cli/doctor.h"
#include "cli/help/help.h"
#include "cli/plan.h"
#include "cli/run.h"
#include "cli/trace.h"
#include "launch/ending.h"

namespace {

constexpr const char* kAbout =
    R"(Ronde: distributed training. Starts the processes of a training job and explains how they end.

A job is N processes (ranks) that train together. Each learns its place from its environment, where the library
(import ronde.torch, or <ronde/ronde.hpp>) finds it.)";

constexpr const char* kExamples = R"(Examples:
  ronde run -n 4 -- python train.py        four ranks of a script on this machine
  ronde run --help                         all options, the ranks' environment, exit codes
  ronde doctor -H node1,node2              whether a job can run on these hosts, and what to do where not
  ronde bench allreduce --ranks 2          how fast two ranks average tensors here
  ronde trace merge trace.json* -o all.json
                                           one timeline of all ranks', for Perfetto
  ronde plan --model resnet50              how a step would scale to thousands of hosts)";

}  // namespace

int main(int argc, char** argv) {
  // What stands after the first -- is a command of the user's: CLI11 must not look at it.
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> after_dashes(dashes, arguments.end());
  arguments.erase(dashes, arguments.end());

  CLI::App app(kAbout, "ronde");
  app.formatter(std::make_shared<ronde::cli::HelpFormatter>("COMMAND [OPTIONS]"));
  app.footer(kExamples);
  app.set_version_flag("--version", "ronde " RONDE_VERSION);
  app.require_subcommand(1);
  // The subcommands, one line each. A callback ends with throw CLI::RuntimeError(code) if its exit code is not 0.
  ronde::cli::add_run_command(app, after_dashes);
  ronde::cli::add_bench_command(app);
  ronde::cli::add_doctor_command(app);
  ronde::cli::add_trace_command(app);
  ronde::cli::add_plan_command(app);
  ronde::cli::add_agent_command(app);
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
  } catch (const CLI::RuntimeError& end) {
    return end.get_exit_code();
  } catch (const CLI::ParseError& error) {
    // CLI11 has a code of its own for each kind of error; a shell knows 2. Asking for help is none.
    return app.exit(error) == 0 ? 0 : ronde::launch::kUsageExit;
  }
  return 0;
}
