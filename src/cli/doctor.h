// `ronde doctor`: looks at the hosts of a job before there is one.
#pragma once

namespace CLI {
class App;
}

namespace ronde::cli {

/// Adds the subcommand. Its callback throws CLI::RuntimeError with the exit code.
void add_doctor_command(CLI::App& app);

}  // namespace ronde::cli
