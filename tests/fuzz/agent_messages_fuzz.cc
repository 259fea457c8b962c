// What a launcher and its agents on other hosts say to each other over ssh (launch/agent_messages.h).
#include "fuzz/target.h"
#include "launch/agent_messages.h"

namespace {

using ronde::launch::AgentHello;
using ronde::launch::AgentPlan;

}  // namespace

std::vector<std::string> ronde::fuzz::seeds() {
  AgentHello hello;
  hello.version = "0.1.0";
  hello.host = "node1";
  hello.caller = "10.0.0.1";
  hello.called = "10.0.0.2";
  hello.free_port = 29500;
  AgentPlan plan;
  plan.command = {"python", "train.py", "--epochs", "3"};
  plan.folder = "/folders";
  plan.environment = {"A=1", "B="};
  plan.settings = {"RONDE_TIMEOUT_S=5"};
  plan.key = "0011";
  plan.size = 4;
  plan.ranks = {{0, 0, 0, 2}, {1, 1, 0, 2}};
  plan.address = "10.0.0.2";
  return {hello.encode(), plan.encode()};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const ronde::Result<AgentHello> hello = AgentHello::decode(text)) {
    const std::string written = hello.value().encode();
    const ronde::Result<AgentHello> again = AgentHello::decode(written);
    ronde::fuzz::expect(again && again.value().encode() == written);
  }
  if (const ronde::Result<AgentPlan> plan = AgentPlan::decode(text)) {
    const std::string written = plan.value().encode();
    const ronde::Result<AgentPlan> again = AgentPlan::decode(written);
    ronde::fuzz::expect(again && again.value().encode() == written);
  }
  return 0;
}
