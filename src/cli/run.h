// `ronde run`: starts a job on this machine, or on several.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ronde::cli {

/// Adds the subcommand. `after_dashes` are the arguments from the first "--" on, which `app` does not see. Its callback
/// throws CLI::RuntimeError with the launcher's exit code.
void add_run_command(CLI::App& app, const std::vector<std::string>& after_dashes);

}  // namespace ronde::cli
