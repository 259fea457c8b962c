#include "launch/environment.h"

#include <map>
#include <string_view>

namespace ronde::launch {

namespace {

using Variables = std::map<std::string, std::string>;

/// Strings without '=' are no variables and stay behind.
void add_all(Variables& variables, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    if (const std::size_t end = setting.find('='); end != std::string::npos) {
      variables[setting.substr(0, end)] = setting.substr(end + 1);
    }
  }
}

void add_places(Variables& variables, const RankPlace& place) {
  for (const std::string_view family : {"RONDE_", "HOROVOD_"}) {
    const std::string prefix(family);
    variables[prefix + "RANK"] = std::to_string(place.rank);
    variables[prefix + "SIZE"] = std::to_string(place.size);
    variables[prefix + "LOCAL_RANK"] = std::to_string(place.local_rank);
    variables[prefix + "LOCAL_SIZE"] = std::to_string(place.local_size);
    variables[prefix + "CROSS_RANK"] = std::to_string(place.cross_rank);
    variables[prefix + "CROSS_SIZE"] = std::to_string(place.cross_size);
  }
  variables["RANK"] = std::to_string(place.rank);
  variables["WORLD_SIZE"] = std::to_string(place.size);
  variables["LOCAL_RANK"] = std::to_string(place.local_rank);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(place.local_size);
  variables["GROUP_RANK"] = std::to_string(place.cross_rank);
}

std::vector<std::string> strings_of(const Variables& variables) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) {
    environment.push_back(name);
    environment.back().append("=").append(value);
  }
  return environment;
}

}  // namespace

std::vector<std::string> rank_environment(const std::vector<std::string>& inherited,
                                          const std::vector<std::string>& settings, const RankPlace& place,
                                          const JobFacts& facts) {
  Variables variables;
  add_all(variables, inherited);
  add_places(variables, place);
  variables["RONDE_STORE"] = facts.store;
  variables["RONDE_KEY"] = facts.key;
  variables["HOROVOD_HOSTNAME"] = facts.host;
  if (!facts.address.empty()) {
    variables["RONDE_ADDRESS"] = facts.address;
  }
  variables["MASTER_ADDR"] = facts.master_address;
  variables["MASTER_PORT"] = std::to_string(facts.master_port);
  // Where a rank finds another place than this in the two, the user has chosen it.
  variables["RONDE_MASTER"] = variables["MASTER_ADDR"] + ":" + variables["MASTER_PORT"];
  variables.emplace("PYTHONUNBUFFERED", "1");
  variables.emplace("OMP_NUM_THREADS", std::to_string(facts.threads));
  add_all(variables, settings);
  return strings_of(variables);
}

std::vector<std::string> launcher_environment(const std::vector<std::string>& inherited,
                                              const std::vector<std::string>& settings) {
  Variables variables;
  add_all(variables, inherited);
  if (variables.contains("RONDE_RANK")) {
    Variables places;
    add_places(places, {});
    for (const char* const name : {"RONDE_STORE", "RONDE_KEY", "RONDE_MASTER", "RONDE_ADDRESS", "HOROVOD_HOSTNAME",
                                   "MASTER_ADDR", "MASTER_PORT"}) {
      places[name] = "";
    }
    for (const auto& [name, value] : places) {
      variables.erase(name);
    }
  }
  add_all(variables, settings);
  return strings_of(variables);
}

Status check_setting(const std::string& setting) {
  const std::size_t end = setting.find('=');
  if (end == std::string::npos || end == 0) {
    return Status::error(Code::invalid_argument, "'" + setting + "' is not of the form NAME=value");
  }
  return {};
}

}  // namespace ronde::launch
