// `ronde bench`: how long collective operations take on this machine.
#pragma once

namespace CLI {
class App;
}

namespace ronde::cli {

/// Adds the subcommand. Its callback throws CLI::RuntimeError with the exit code when that is not 0; when it starts
/// ranks of its own it does not return: this process becomes `ronde run`.
void add_bench_command(CLI::App& app);

}  // namespace ronde::cli
