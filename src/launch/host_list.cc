#include "launch/host_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

namespace ronde::launch {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && !text.starts_with('-');
  return is_whole ? std::optional<int>(value) : std::nullopt;
}

Status wrong(std::string_view where, const std::string& what) {
  return Status::error(Code::invalid_argument, std::string(where) + ": " + what);
}

Result<int> slots_of(std::string_view text, std::string_view where) {
  const std::optional<int> slots = number(text);
  if (!slots || *slots < 1) {
    return wrong(where, "'" + std::string(text) + "' is no number of ranks; expected 1 or more, as in node1:4");
  }
  return *slots;
}

/// Splits at commas outside of square brackets.
std::vector<std::string_view> items_of(std::string_view list) {
  std::vector<std::string_view> items;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      items.push_back(trimmed(list.substr(begin, i - begin)));
      begin = i + 1;
    } else {
      depth += list[i] == '[' ? 1 : list[i] == ']' ? -1 : 0;
    }
  }
  return items;
}

/// "01-03" of "node[01-03,7]": as wide as its first number is written.
Status add_range(std::string_view range, const std::string& before, const std::string& after, std::string_view where,
                 std::vector<std::string>& names) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const std::optional<int> from = number(first);
  const std::optional<int> to = number(last);
  if (!from || !to || *to < *from || *to - *from >= kMaxHosts) {
    return wrong(where, "'" + std::string(range) + "' is no range of host numbers; expected, for example, node[01-16]");
  }
  for (int i = *from; i <= *to; ++i) {
    std::string digits = std::to_string(i);
    digits.insert(0, first.size() > digits.size() ? first.size() - digits.size() : 0, '0');
    names.push_back(before);
    names.back().append(digits).append(after);
  }
  return {};
}

/// Numbers in the last pair of square brackets; a name without them, or an IPv6 address in them, is itself.
Result<std::vector<std::string>> expand_item(std::string_view item, std::string_view where) {
  std::vector<std::string> names;
  const std::size_t open = item.find('[');
  if (open == std::string_view::npos) {
    names.emplace_back(item);
    return names;
  }
  const std::size_t close = item.find(']', open);
  if (close == std::string_view::npos) {
    return wrong(where, "'" + std::string(item) + "' lacks a ']'");
  }
  const std::string_view inside = item.substr(open + 1, close - open - 1);
  if (inside.find(':') != std::string_view::npos) {
    names.emplace_back(inside);
    return names;
  }
  const std::string before(item.substr(0, open));
  // What comes behind may have brackets again: rack[1-2]n[1-4].
  RONDE_ASSIGN_OR_RETURN(const std::vector<std::string> endings, expand_item(item.substr(close + 1), where));
  for (const std::string_view range : items_of(inside)) {
    for (const std::string& ending : endings) {
      RONDE_RETURN_IF_ERROR(add_range(range, before, ending, where, names));
    }
  }
  if (endings.size() > 1) {
    std::sort(names.begin(), names.end());
  }
  return names;
}

Status check_name(const std::string& name, std::string_view where) {
  // A name that begins with '-' would be an option of ssh.
  const bool is_fine = !name.empty() && name[0] != '-' && std::none_of(name.begin(), name.end(), [](char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0 || std::iscntrl(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("'\"\\;&|<>()$`,=[]{}*?!#").find(c) != std::string_view::npos;
  });
  return is_fine ? Status{} : wrong(where, "'" + name + "' is no name of a host; expected, for example, node1:4");
}

Status add(std::string name, int slots, std::string_view where, std::vector<HostSlots>& hosts) {
  RONDE_RETURN_IF_ERROR(check_name(name, where));
  for (HostSlots& host : hosts) {
    if (host.name == name) {
      host.slots += slots;
      return {};
    }
  }
  if (hosts.size() >= static_cast<std::size_t>(kMaxHosts)) {
    return wrong(where, "more than " + std::to_string(kMaxHosts) + " hosts");
  }
  hosts.push_back({std::move(name), slots});
  return {};
}

/// "node1:4", and its kin; without slots the host takes `otherwise`.
Status add_item(std::string_view item, int otherwise, std::string_view where, std::vector<HostSlots>& hosts) {
  int slots = otherwise;
  const std::size_t colon = item.rfind(':');
  const std::size_t bracket = item.rfind(']');
  const bool is_bare_ipv6 = bracket == std::string_view::npos && std::count(item.begin(), item.end(), ':') > 1;
  if (colon != std::string_view::npos && !is_bare_ipv6 && (bracket == std::string_view::npos || bracket < colon)) {
    RONDE_ASSIGN_OR_RETURN(slots, slots_of(item.substr(colon + 1), where));
    item = item.substr(0, colon);
  }
  RONDE_ASSIGN_OR_RETURN(const std::vector<std::string> names, expand_item(item, where));
  for (const std::string& name : names) {
    RONDE_RETURN_IF_ERROR(add(name, slots, where, hosts));
  }
  return {};
}

Result<std::vector<HostSlots>> parse_json(std::string_view contents, std::string_view where) {
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(contents, nullptr, false);
  const auto expected = [&] {
    return wrong(where, R"(expected JSON such as {"node1": 4, "node2": 4} or [{"host": "node1", "slots": 4}])");
  };
  std::vector<HostSlots> hosts;
  if (json.is_object()) {
    for (const auto& [name, slots] : json.items()) {
      if (!slots.is_number_unsigned() || slots < 1 || slots > 1000000) {
        return expected();
      }
      RONDE_RETURN_IF_ERROR(add(name, slots.get<int>(), where, hosts));
    }
  } else if (json.is_array()) {
    for (const auto& entry : json) {
      const bool is_fine = entry.is_object() && entry.contains("host") && entry["host"].is_string() &&
                           (!entry.contains("slots") ||
                            (entry["slots"].is_number_unsigned() && entry["slots"] >= 1 && entry["slots"] <= 1000000));
      if (!is_fine) {
        return expected();
      }
      RONDE_RETURN_IF_ERROR(add(entry["host"].get<std::string>(), entry.value("slots", 1), where, hosts));
    }
  } else {
    return expected();
  }
  return hosts;
}

Status add_line(std::string_view line, std::string_view where, std::vector<HostSlots>& hosts) {
  const std::size_t end = line.find_first_of(" \t");
  const std::string_view host = line.substr(0, end);
  int slots = 1;
  while (end != std::string_view::npos && (line = trimmed(line.substr(line.find_first_of(" \t")))) != "") {
    const std::string_view word = line.substr(0, line.find_first_of(" \t"));
    if (word.starts_with("slots=")) {
      RONDE_ASSIGN_OR_RETURN(slots, slots_of(word.substr(6), where));
    } else if (word.find('=') == std::string_view::npos) {
      return wrong(where, "'" + std::string(word) + "' is not understood; expected, for example, `node1 slots=4`");
    }
    if (line.size() == word.size()) {
      break;
    }
  }
  return add_item(host, slots, where, hosts);
}

}  // namespace

Result<std::vector<HostSlots>> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  const std::string where = "hosts '" + std::string(text) + "'";
  for (const std::string_view item : items_of(text)) {
    RONDE_RETURN_IF_ERROR(add_item(item, 1, where, hosts));
  }
  return hosts;
}

Result<std::vector<HostSlots>> parse_host_file(std::string_view contents, std::string_view where) {
  std::vector<HostSlots> hosts;
  if (const std::string_view text = trimmed(contents); text.starts_with('{') || text.starts_with("[{")) {
    RONDE_ASSIGN_OR_RETURN(hosts, parse_json(text, where));
  } else {
    int line_number = 0;
    std::istringstream lines{std::string(contents)};
    for (std::string line; std::getline(lines, line);) {
      ++line_number;
      const std::string_view bare = trimmed(std::string_view(line).substr(0, line.find('#')));
      if (!bare.empty()) {
        RONDE_RETURN_IF_ERROR(add_line(bare, std::string(where) + ", line " + std::to_string(line_number), hosts));
      }
    }
  }
  if (hosts.empty()) {
    return wrong(where, "names no host; expected lines such as `node1 slots=4` or `node1:4`");
  }
  return hosts;
}

Result<std::vector<HostSlots>> read_host_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream contents;
  if (!file || !(contents << file.rdbuf())) {
    return wrong("host file '" + path + "'", file ? "is empty" : "cannot be read");
  }
  return parse_host_file(contents.str(), "host file '" + path + "'");
}

Result<std::vector<std::string>> expand_host_names(std::string_view list) {
  std::vector<std::string> names;
  const std::string where = "hosts '" + std::string(list) + "'";
  for (const std::string_view item : items_of(list)) {
    RONDE_ASSIGN_OR_RETURN(const std::vector<std::string> expanded, expand_item(item, where));
    for (const std::string& name : expanded) {
      RONDE_RETURN_IF_ERROR(check_name(name, where));
      names.push_back(name);
    }
  }
  return names;
}

Result<std::vector<HostSlots>> fill_hosts(const std::vector<HostSlots>& hosts, int ranks) {
  std::vector<HostSlots> used;
  int left = ranks;
  int slots = 0;
  for (const HostSlots& host : hosts) {
    slots += host.slots;
    if (ranks == 0 || left > 0) {
      used.push_back({host.name, ranks == 0 ? host.slots : std::min(host.slots, left)});
      left -= used.back().slots;
    }
  }
  if (ranks != 0 && left > 0) {
    return Status::error(Code::invalid_argument, std::to_string(ranks) + " ranks are more than the hosts' " +
                                                     std::to_string(slots) + (slots == 1 ? " slot" : " slots") +
                                                     "; say how many each takes, as in -H node1:4,node2:4");
  }
  return used;
}

}  // namespace ronde::launch
