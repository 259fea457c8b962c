// `ronde agent`: what `ronde run` starts on other hosts. No command for people: it is in no list of them.
#pragma once

namespace CLI {
class App;
}

namespace ronde::cli {

/// Adds the subcommand. Its callback throws CLI::RuntimeError with the agent's exit code.
void add_agent_command(CLI::App& app);

}  // namespace ronde::cli
