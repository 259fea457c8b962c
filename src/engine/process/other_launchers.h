// Launchers that have started several processes of which Ronde knows nothing: each would be a job of its own.
#pragma once

#include <optional>
#include <string>

namespace ronde::engine {

/// A sentence to warn with, if this process is a job of one rank only since RONDE_SIZE is not set, and the variables of
/// another launcher say that it has started more.
std::optional<std::string> why_not_alone();

}  // namespace ronde::engine
