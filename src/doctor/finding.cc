#include "doctor/finding.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace ronde::doctor {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kGrades[] = {"ok", "notice", "warning", "failure"};

std::string dumped(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const Finding& finding) {
  Json json = {{"grade", grade_name(finding.grade)}, {"subject", finding.subject}, {"text", finding.text}};
  if (!finding.advice.empty()) {
    json["advice"] = finding.advice;
  }
  return json;
}

Finding finding_of(const Json& json) {
  const auto grade = std::find(std::begin(kGrades), std::end(kGrades), json.at("grade").get<std::string>());
  return {grade == std::end(kGrades) ? Grade::failure : static_cast<Grade>(grade - std::begin(kGrades)),
          json.at("subject").get<std::string>(), json.at("text").get<std::string>(), json.value("advice", "")};
}

Json json_of(const HostReport& report) {
  Json json = {{"host", report.host},
               {"python", report.python},
               {"processor", report.processor},
               {"packages", Json::object()},
               {"findings", Json::array()}};
  for (const Package& each : report.packages) {
    json["packages"][each.name] = each.version;
  }
  for (const Finding& each : report.findings) {
    json["findings"].push_back(json_of(each));
  }
  return json;
}

Json json_of(const std::vector<PairReport>& pairs) {
  Json json = Json::array();
  for (const PairReport& each : pairs) {
    Json pair = {{"from", each.from}, {"to", each.to}};
    pair.update(json_of(each.finding));
    json.push_back(std::move(pair));
  }
  return json;
}

/// nlohmann's access throws where a field is missing or of another type.
template <typename Value, typename Read>
Result<Value> decoded(std::string_view text, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return Status::error(Code::internal, std::string("another host's report cannot be read: ") + error.what());
  }
}

/// "3.11.7 (rh1, rh2), 3.12.1 (rh3)"; empty if all have the same.
std::string differences(const std::vector<HostReport>& hosts, const std::vector<std::string>& values) {
  std::map<std::string, std::string> hosts_with;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::string& names = hosts_with[values[i].empty() ? "none" : values[i]];
    names += (names.empty() ? "" : ", ") + hosts[i].host;
  }
  std::string text;
  for (const auto& [value, names] : hosts_with) {
    text += (text.empty() ? "" : ", ") + value + " (" + names + ")";
  }
  return hosts_with.size() > 1 ? text : "";
}

void add_lines(std::string& text, const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& each : findings) {
    width = std::max(width, each.subject.size());
  }
  for (const Finding& each : findings) {
    text += "  " + std::string(grade_name(each.grade)) + std::string(9 - grade_name(each.grade).size(), ' ') +
            each.subject + std::string(width + 2 - each.subject.size(), ' ') + each.text + "\n";
    if (!each.advice.empty()) {
      text += std::string(width + 13, ' ') + "-> " + each.advice + "\n";
    }
  }
}

std::vector<Finding> findings_of(const std::vector<HostReport>& hosts, const std::vector<PairReport>& pairs) {
  std::vector<Finding> findings;
  for (const PairReport& each : pairs) {
    findings.push_back(each.finding);
    findings.back().subject =
        hosts[static_cast<std::size_t>(each.from)].host + " - " + hosts[static_cast<std::size_t>(each.to)].host;
  }
  return findings;
}

}  // namespace

std::string_view grade_name(Grade grade) { return kGrades[static_cast<std::size_t>(grade)]; }

std::string encode(const HostReport& report) { return dumped(json_of(report)); }

Result<HostReport> decode_host(std::string_view text) {
  return decoded<HostReport>(text, [](const Json& json) {
    HostReport report;
    report.host = json.at("host").get<std::string>();
    report.python = json.at("python").get<std::string>();
    report.processor = json.at("processor").get<std::string>();
    for (const auto& [name, version] : json.at("packages").items()) {
      report.packages.push_back({name, version.get<std::string>()});
    }
    for (const Json& each : json.at("findings")) {
      report.findings.push_back(finding_of(each));
    }
    return report;
  });
}

std::string encode(const std::vector<PairReport>& pairs) { return dumped(json_of(pairs)); }

Result<std::vector<PairReport>> decode_pairs(std::string_view text) {
  return decoded<std::vector<PairReport>>(text, [](const Json& json) {
    std::vector<PairReport> pairs;
    for (const Json& each : json) {
      pairs.push_back({each.at("from").get<int>(), each.at("to").get<int>(), finding_of(each)});
    }
    return pairs;
  });
}

std::vector<Finding> compare(const std::vector<HostReport>& hosts) {
  std::vector<Finding> findings;
  const auto add = [&](const std::string& subject, const std::vector<std::string>& values, Grade grade,
                       const std::string& advice) {
    if (const std::string text = differences(hosts, values); !text.empty()) {
      findings.push_back({grade, subject, text, advice});
    }
  };
  std::vector<std::string> names;
  std::vector<std::string> pythons;
  std::vector<std::string> processors;
  for (const HostReport& host : hosts) {
    pythons.push_back(host.python);
    processors.push_back(host.processor);
    for (const Package& each : host.packages) {
      if (std::find(names.begin(), names.end(), each.name) == names.end()) {
        names.push_back(each.name);
      }
    }
  }
  add("Python", pythons, Grade::warning, "use one version on all hosts: what ranks pickle for each other needs it");
  for (const std::string& name : names) {
    std::vector<std::string> versions;
    for (const HostReport& host : hosts) {
      const auto found = std::find_if(host.packages.begin(), host.packages.end(),
                                      [&](const Package& each) { return each.name == name; });
      versions.push_back(found == host.packages.end() ? "" : found->version);
    }
    add(name, versions, Grade::warning, "install the same version on all hosts");
  }
  add("processors", processors, Grade::notice, "");
  return findings;
}

std::string as_text(const std::vector<HostReport>& hosts, const std::vector<PairReport>& pairs,
                    const std::vector<Finding>& together) {
  std::string text;
  for (const HostReport& host : hosts) {
    text += host.host + "\n";
    add_lines(text, host.findings);
  }
  if (!pairs.empty() || !together.empty()) {
    text += "between hosts\n";
    std::vector<Finding> between = findings_of(hosts, pairs);
    between.insert(between.end(), together.begin(), together.end());
    add_lines(text, between);
  }
  std::map<Grade, int> count;
  const auto counted = [&](const std::vector<Finding>& findings) {
    for (const Finding& each : findings) {
      ++count[each.grade];
    }
  };
  for (const HostReport& host : hosts) {
    counted(host.findings);
  }
  counted(findings_of(hosts, pairs));
  counted(together);
  const auto plural = [](int number, const std::string& what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  return text + plural(count[Grade::failure], "failure") + ", " + plural(count[Grade::warning], "warning") + ", " +
         plural(count[Grade::notice], "notice") + "\n";
}

std::string as_json(const std::vector<HostReport>& hosts, const std::vector<PairReport>& pairs,
                    const std::vector<Finding>& together) {
  Json json = {{"hosts", Json::array()}, {"pairs", json_of(pairs)}, {"together", Json::array()}};
  for (const HostReport& each : hosts) {
    json["hosts"].push_back(json_of(each));
  }
  for (const Finding& each : together) {
    json["together"].push_back(json_of(each));
  }
  json["worst"] = grade_name(worst(hosts, pairs, together));
  return dumped(json, 2) + "\n";
}

Grade worst(const std::vector<HostReport>& hosts, const std::vector<PairReport>& pairs,
            const std::vector<Finding>& together) {
  Grade grade = Grade::ok;
  for (const HostReport& host : hosts) {
    for (const Finding& each : host.findings) {
      grade = std::max(grade, each.grade);
    }
  }
  for (const PairReport& each : pairs) {
    grade = std::max(grade, each.finding.grade);
  }
  for (const Finding& each : together) {
    grade = std::max(grade, each.grade);
  }
  return grade;
}

}  // namespace ronde::doctor
