#include "plan/fabric.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace ronde::plan {

namespace {

using Json = nlohmann::json;

/// Of Ethernet with packets of 1500 bytes 1448 of 1538 are payload: the rest is preamble, gap and headers of Ethernet,
/// IP and TCP.
constexpr double kTcpShare = 1448.0 / 1538.0;

constexpr const char* kTcpSource =
    "20 us for a small message between polling processes of 10 to 100 Gbit/s Ethernet (15 to 30 are common): 4 us for "
    "each call of send or recv, 12 us between the links; 0.3 ns a byte for a kernel's copy and a checksum on one core";
constexpr const char* kAriesSource =
    "Cray Aries: 1.2 us and 9.6 GB/s for Open MPI's messages in a public log of OSU's benchmarks (2016)";
constexpr const char* kRdmaSource =
    "InfiniBand: 0.9 us and 11.6 GB/s (EDR), 1 us and 24.5 GB/s (HDR) for small and large MPI messages";
constexpr const char* kRoceSource = "RoCE at 25 Gbit/s: 2 us assumed for a small message";
constexpr const char* kSlingshotSource =
    "Slingshot 11: 2 us for a small MPI message; 24.1 GB/s for a libfabric RMA write (De Sensi et al., 2020; UCCL)";

Fabric base(std::string name) {
  Fabric fabric;
  fabric.name = std::move(name);
  fabric.reduce_ns_per_byte = 0.1;
  fabric.memory_us = 0.3;
  fabric.memory_ns_per_byte = 0.1;
  return fabric;
}

Fabric tcp(std::string name, double gbit) {
  Fabric fabric = base(std::move(name));
  fabric.latency_us = 12;
  fabric.overhead_us = 4;
  fabric.link_gbit = gbit * kTcpShare;
  fabric.cpu_ns_per_byte = 0.3;
  return fabric;
}

/// `small_us`: a small message from one process to the other.
Fabric rdma(std::string name, double small_us, double gbytes) {
  Fabric fabric = base(std::move(name));
  fabric.overhead_us = 0.2;
  fabric.latency_us = small_us - 2 * fabric.overhead_us;
  fabric.link_gbit = 8 * gbytes;
  fabric.has_transport = false;
  return fabric;
}

std::string parameter_names() {
  std::string names;
  for (const FabricParameter& each : fabric_parameters()) {
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  return names;
}

const FabricPreset* find_preset(std::string_view name) {
  for (const FabricPreset& each : fabric_presets()) {
    if (each.fabric.name == name) {
      return &each;
    }
  }
  return nullptr;
}

const FabricParameter* find_parameter(std::string_view name) {
  for (const FabricParameter& each : fabric_parameters()) {
    if (name == each.name) {
      return &each;
    }
  }
  return nullptr;
}

Status wrong(const std::string& what) { return Status::error(Code::invalid_argument, what); }

}  // namespace

const std::vector<FabricParameter>& fabric_parameters() {
  static const auto* const parameters = new std::vector<FabricParameter>{
      {"latency_us", &Fabric::latency_us, "from one host's link to another's"},
      {"overhead_us", &Fabric::overhead_us, "of a processor for each message, on either side"},
      {"gap_us", &Fabric::gap_us, "of a host's link for each message, at least"},
      {"link_gbit", &Fabric::link_gbit, "payload of a host's link in each direction, Gbit/s"},
      {"cpu_ns_per_byte", &Fabric::cpu_ns_per_byte, "copies and checksum, on either side"},
      {"reduce_ns_per_byte", &Fabric::reduce_ns_per_byte, "for each byte of each value that is added"},
      {"memory_us", &Fabric::memory_us, "for each message in a host's memory, on either side"},
      {"memory_ns_per_byte", &Fabric::memory_ns_per_byte, "the copy of such a message, on either side"},
      {"sharing_loss", &Fabric::sharing_loss, "of a link's time, for each doubling of connections that share it"},
      {"window_kib", &Fabric::window_kib, "of a connection up to which sharing loses nothing"},
  };
  return *parameters;
}

const std::vector<FabricPreset>& fabric_presets() {
  static const auto* const presets = new std::vector<FabricPreset>{
      {tcp("tcp-1g", 1), kTcpSource},
      {tcp("tcp-10g", 10), kTcpSource},
      {tcp("tcp-25g", 25), kTcpSource},
      {tcp("tcp-100g", 100), kTcpSource},
      {rdma("rdma-25g", 2, 25.0 / 8 * kTcpShare), kRoceSource},
      {rdma("rdma-100g", 0.9, 11.6), kRdmaSource},
      {rdma("rdma-200g", 1, 24.5), kRdmaSource},
      {rdma("aries", 1.2, 9.6), kAriesSource},
      {rdma("slingshot-11", 2, 24.1), kSlingshotSource},
  };
  return *presets;
}

std::string fabric_names() {
  std::string names;
  for (const FabricPreset& each : fabric_presets()) {
    names += (names.empty() ? "" : ", ") + each.fabric.name;
  }
  return names;
}

Result<Fabric> parse_fabric(std::string_view text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return wrong("'" + path + "' is no fabric: expected a JSON object of parameters such as {\"like\": \"tcp-10g\", " +
                 "\"latency_us\": 20}");
  }
  const Json like = json.value("like", Json("tcp-10g"));
  const FabricPreset* const preset = like.is_string() ? find_preset(like.get<std::string>()) : nullptr;
  if (preset == nullptr) {
    return wrong("'" + path + "': \"like\" is " + like.dump() + "; expected one of " + fabric_names());
  }
  Fabric fabric = preset->fabric;
  fabric.name = path;
  for (const auto& [name, value] : json.items()) {
    if (name == "like") {
      continue;
    }
    const FabricParameter* const parameter = find_parameter(name);
    if (name == "name" && value.is_string()) {
      fabric.name = value.get<std::string>();
    } else if (parameter == nullptr) {
      return wrong("'" + path + "': a fabric has no \"" + name + "\"; its parameters are " + parameter_names());
    } else if (!value.is_number()) {
      return wrong("'" + path + "': \"" + name + "\" is " + value.dump() + "; expected a number");
    } else {
      fabric.*parameter->value = value.get<double>();
    }
  }
  RONDE_RETURN_IF_ERROR(check(fabric).with_context("'" + path + "'"));
  return fabric;
}

Result<Fabric> find_fabric(const std::string& name) {
  if (const FabricPreset* const preset = find_preset(name)) {
    return preset->fabric;
  }
  std::ifstream file(name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    return wrong("'" + name + "' is neither a known fabric (" + fabric_names() + ") nor a file that can be read");
  }
  return parse_fabric(text.str(), name);
}

Status set_parameter(Fabric& fabric, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string name(assignment.substr(0, equals));
  const FabricParameter* const parameter = find_parameter(name);
  if (equals == std::string_view::npos || parameter == nullptr) {
    return wrong("'" + std::string(assignment) + "' sets no parameter of a fabric: expected NAME=NUMBER, NAME one of " +
                 parameter_names());
  }
  const std::string_view number = assignment.substr(equals + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) {
    return wrong(name + " is '" + std::string(number) + "'; expected a number");
  }
  fabric.*parameter->value = value;
  return check(fabric);
}

Status check(const Fabric& fabric) {
  for (const FabricParameter& each : fabric_parameters()) {
    if (!std::isfinite(fabric.*each.value) || fabric.*each.value < 0) {
      return wrong(std::string(each.name) + " must be a number from 0 on");
    }
  }
  return fabric.link_gbit > 0 ? Status() : wrong("link_gbit is 0; a link must carry something");
}

}  // namespace ronde::plan
