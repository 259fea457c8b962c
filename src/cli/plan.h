// `ronde plan`: how a training step would scale.
#pragma once

namespace CLI {
class App;
}

namespace ronde::cli {

/// Adds the subcommand. Its callback throws CLI::RuntimeError with the exit code if that is not 0.
void add_plan_command(CLI::App& app);

}  // namespace ronde::cli
