#include "cli/agent.h"

#include <CLI/CLI.hpp>

#include "launch/agent.h"

namespace ronde::cli {

void add_agent_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("agent", "Starts the ranks of a job on this host, as `ronde run` on another tells it");
  command->group("");  // not listed
  command->callback([] { throw CLI::RuntimeError(launch::run_agent()); });
}

}  // namespace ronde::cli
