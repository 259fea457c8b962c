#include "launch/binding.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace ronde::launch {

namespace {

int number_in(const std::string& path, int otherwise) {
  int number = otherwise;
  std::ifstream(path) >> number;
  return number;
}

/// "0-3,8" as /sys writes it.
std::set<int> cores_in(const std::string& path) {
  std::set<int> cores;
  std::ifstream file(path);
  for (std::string range; std::getline(file, range, ',');) {
    int first = 0;
    char dash = 0;
    std::istringstream text(range);
    if (text >> first) {
      int last = first;
      text >> dash >> last;
      for (int core = first; core <= last; ++core) {
        cores.insert(core);
      }
    }
  }
  return cores;
}

}  // namespace

Result<Binding> parse_binding(const std::string& name) {
  for (const auto& [known, binding] :
       {std::pair("none", Binding::none), std::pair("core", Binding::core), std::pair("numa", Binding::numa)}) {
    if (name == known) {
      return binding;
    }
  }
  return Status::error(Code::invalid_argument, "'" + name + "' is no way to bind ranks; expected none, core or numa");
}

CoresByNode cores_by_node(const std::vector<int>& allowed, const std::string& root) {
  std::map<int, int> node_of;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/sys/devices/system/node", ignored)) {
    int node = 0;
    if (std::istringstream digits(entry.path().filename().string().substr(4));
        entry.path().filename().string().starts_with("node") && digits >> node) {
      for (int core : cores_in(entry.path().string() + "/cpulist")) {
        node_of[core] = node;
      }
    }
  }
  // Package and number of the physical core before the thread's own number.
  std::map<int, std::vector<std::vector<int>>> found;
  for (int core : allowed) {
    const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/";
    const auto node = node_of.find(core);
    found[node == node_of.end() ? 0 : node->second].push_back(
        {number_in(topology + "physical_package_id", 0), number_in(topology + "core_id", core), core});
  }
  CoresByNode nodes;
  for (auto& [node, cores] : found) {
    std::sort(cores.begin(), cores.end());
    nodes.emplace_back();
    for (const std::vector<int>& each : cores) {
      nodes.back().push_back(each.back());
    }
  }
  return nodes;
}

std::vector<int> cores_of_rank(Binding binding, const CoresByNode& nodes, int local_rank, int local_size) {
  if (binding == Binding::none || nodes.empty()) {
    return {};
  }
  const auto rank = static_cast<std::size_t>(local_rank);
  const auto ranks = static_cast<std::size_t>(local_size);
  if (binding == Binding::numa) {
    return nodes[rank * nodes.size() / std::max(ranks, nodes.size())];
  }
  std::vector<int> all;
  for (const std::vector<int>& node : nodes) {
    all.insert(all.end(), node.begin(), node.end());
  }
  const std::size_t share = std::max<std::size_t>(1, all.size() / ranks);
  const std::size_t begin = rank * share % all.size();
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(begin + share)};
}

}  // namespace ronde::launch
