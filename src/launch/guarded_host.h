// The ranks of the launcher's own host, under a guardian that it has forked.
#pragma once

#include <string>
#include <vector>

#include "launch/guardian.h"
#include "launch/rank_host.h"

namespace ronde::launch {

class GuardedHost final : public RankHost {
 public:
  /// `children` are processes that this one had before the job. `folder`: of the store, where the ranks note that they
  /// leave.
  GuardedHost(Guardian guardian, std::vector<pid_t> children, std::string folder);

  const std::string& name() const override { return name_; }
  void watch(std::vector<pollfd>& entries) override;
  Nanoseconds next_deadline() const override { return kNever; }
  std::vector<RankHostEvent> hear(const std::vector<pollfd>& entries, Nanoseconds now) override;
  void command(const Command& order) override;
  void finish() override;

 private:
  RankHostEvent lose_guardian();

  std::string name_;
  Guardian guardian_;
  std::vector<pid_t> children_before_;
  std::string folder_;
  bool is_lost_ = false;
};

}  // namespace ronde::launch
