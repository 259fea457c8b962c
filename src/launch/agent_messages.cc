#include "launch/agent_messages.h"

#include <nlohmann/json.hpp>

namespace ronde::launch {

namespace {

using Json = nlohmann::json;

/// A path or a variable may hold any bytes, JSON only UTF-8: Latin-1 makes each byte a character.
std::string to_latin1(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xc0 | (byte >> 6));
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

std::string from_latin1(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80 || i + 1 == text.size()) {
      bytes += text[i];
    } else {
      bytes += static_cast<char>(((byte & 0x03) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3f));
    }
  }
  return bytes;
}

Json list_of(const std::vector<std::string>& strings) {
  Json list = Json::array();
  for (const std::string& each : strings) {
    list.push_back(to_latin1(each));
  }
  return list;
}

std::vector<std::string> strings_of(const Json& list) {
  std::vector<std::string> strings;
  for (const Json& each : list) {
    strings.push_back(from_latin1(each.get<std::string>()));
  }
  return strings;
}

std::string string_of(const Json& json, const char* name) { return from_latin1(json.at(name).get<std::string>()); }

/// nlohmann's access throws where a field is missing or of another type.
template <typename Message, typename Read>
Result<Message> decode_with(const char* what, std::string_view text, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return Status::error(Code::internal, std::string(what) + " cannot be read: " + error.what());
  }
}

}  // namespace

std::string AgentHello::encode() const {
  Json json = {{"version", version}, {"host", to_latin1(host)},    {"caller", caller},
               {"called", called},   {"addresses", Json::array()}, {"free_port", free_port}};
  for (const store::InterfaceAddress& each : addresses) {
    json["addresses"].push_back({to_latin1(each.interface), each.address});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<AgentHello> AgentHello::decode(std::string_view text) {
  return decode_with<AgentHello>("an agent's greeting", text, [](const Json& json) {
    AgentHello hello;
    hello.version = json.at("version").get<std::string>();
    hello.host = string_of(json, "host");
    hello.caller = json.at("caller").get<std::string>();
    hello.called = json.at("called").get<std::string>();
    for (const Json& each : json.at("addresses")) {
      hello.addresses.push_back({from_latin1(each.at(0).get<std::string>()), each.at(1).get<std::string>()});
    }
    hello.free_port = json.at("free_port").get<int>();
    return hello;
  });
}

std::string AgentPlan::encode() const {
  Json json = {{"command", list_of(command)},
               {"folder", to_latin1(folder)},
               {"path_first", to_latin1(path_first)},
               {"environment", list_of(environment)},
               {"settings", list_of(settings)},
               {"key", key},
               {"size", size},
               {"binding", static_cast<int>(binding)},
               {"ranks", Json::array()},
               {"address", address},
               {"carries", carries},
               {"master_address", master_address},
               {"master_port", master_port}};
  for (const PlannedRank& each : ranks) {
    json["ranks"].push_back({each.rank, each.local_rank, each.cross_rank, each.cross_size});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<AgentPlan> AgentPlan::decode(std::string_view text) {
  return decode_with<AgentPlan>("the launcher's plan", text, [](const Json& json) {
    AgentPlan plan;
    plan.command = strings_of(json.at("command"));
    plan.folder = string_of(json, "folder");
    plan.path_first = string_of(json, "path_first");
    plan.environment = strings_of(json.at("environment"));
    plan.settings = strings_of(json.at("settings"));
    plan.key = json.at("key").get<std::string>();
    plan.size = json.at("size").get<int>();
    plan.binding = static_cast<Binding>(json.at("binding").get<int>());
    for (const Json& each : json.at("ranks")) {
      plan.ranks.push_back(
          {each.at(0).get<int>(), each.at(1).get<int>(), each.at(2).get<int>(), each.at(3).get<int>()});
    }
    plan.address = json.at("address").get<std::string>();
    plan.carries = json.at("carries").get<bool>();
    plan.master_address = json.at("master_address").get<std::string>();
    plan.master_port = json.at("master_port").get<int>();
    return plan;
  });
}

}  // namespace ronde::launch
