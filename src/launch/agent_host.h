// AgentHost: a host of a job of several, as its launcher sees it: the agent there, and the ConnectingProcess that
// reaches it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock_offset.h"
#include "launch/agent_messages.h"
#include "launch/carried_folder.h"
#include "launch/connecting_process.h"
#include "launch/ending.h"
#include "launch/frame_pipe.h"
#include "launch/heartbeat.h"
#include "launch/rank_host.h"
#include "launch/rank_output.h"
#include "launch/store_relay.h"

namespace ronde::launch {

class AgentHost final : public RankHost {
 public:
  /// Before a host's ranks run: connecting -> greeted -> planned -> ready -> begun, and failed from any of them.
  enum class State { connecting, greeted, planned, ready, begun, failed };

  /// Starts `words`, a program that becomes or reaches the agent. `trial`: what a person can type to see whether that
  /// works. `store_path`: of the job's store. `program`: of Ronde, there.
  static Result<std::unique_ptr<AgentHost>> connect(std::string name, const std::vector<std::string>& words,
                                                    std::string trial, const std::string& store_path,
                                                    std::string program);
  ~AgentHost() override;

  State state() const { return state_; }
  /// Of a host that has greeted.
  const AgentHello& hello() const { return hello_; }
  /// One sentence, of a host that has failed.
  const std::string& failure() const { return failure_; }
  /// The launcher's exit code then.
  int failure_code() const { return failure_code_; }
  /// Gives up: says that it did not do `what` for `span`.
  void fail_for_silence(const std::string& what, Nanoseconds span);
  /// Requires: greeted. `carried` (empty: none): a folder whose files go there, and to which the ranks' come back.
  Status plan(const AgentPlan& plan, const std::string& carried);
  /// Starts the ranks, whose output goes to `output`, which is kept. Requires: ready.
  void begin(RankOutput& output);

  const std::string& name() const override { return name_; }
  void watch(std::vector<pollfd>& entries) override;
  Nanoseconds next_deadline() const override;
  std::vector<RankHostEvent> hear(const std::vector<pollfd>& entries, Nanoseconds now) override;
  void command(const Command& order) override;
  void finish() override;

 private:
  AgentHost(std::string name, std::unique_ptr<ConnectingProcess> process, std::string trial,
            const std::string& store_path, std::string program);
  void take(const Frame& frame, Nanoseconds now, std::vector<RankHostEvent>& events);
  void take_hello(const std::string& text);
  void take_report(const RankReport& told, std::vector<RankHostEvent>& events);
  std::string why_ended();
  void fail(const std::string& reason);
  void end_connection();

  std::string name_;
  std::string program_;
  std::string trial_;
  State state_ = State::connecting;
  std::string failure_;
  int failure_code_ = kLauncherExit;
  std::unique_ptr<ConnectingProcess> process_;
  FramePipe frames_;
  StoreRelay relay_;
  std::optional<CarriedFolder> carried_;
  RankOutput* output_ = nullptr;
  AgentHello hello_;
  RealClock clock_;
  Heartbeat heartbeat_;
  ClockOffset clock_offset_;
  bool is_over_ = false;
};

}  // namespace ronde::launch
