// Recorded environments.
#pragma once

#include <map>
#include <string>

#include "site/variables.h"

namespace ronde::site {

inline Variables recorded(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace ronde::site
