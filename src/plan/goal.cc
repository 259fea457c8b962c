#include "plan/goal.h"

#include <algorithm>
#include <cmath>

#include "plan/schedules.h"

namespace ronde::plan {

namespace {

using collectives::RankLayout;
using collectives::Schedule;
using collectives::Stage;

/// One rank's lines.
class GoalRank {
 public:
  GoalRank(std::string& text, double reduce_ns_per_byte) : text_(text), reduce_ns_per_byte_(reduce_ns_per_byte) {}

  /// From the last bucket's being ready to this one's.
  std::string compute(double nanoseconds) {
    const std::string label = calculation(nanoseconds, 1);
    if (!computed_.empty()) {
      require(label, computed_);
    }
    return computed_ = label;
  }

  void carry_out(const Schedule& schedule, std::size_t first_tag, const std::string& ready) {
    std::vector<std::string> finished;  // by stage
    Stage stage;
    for (std::size_t index = 0; index < schedule.stages(); ++index) {
      stage.clear();
      schedule.describe(index, stage);
      const std::string tag = std::to_string(first_tag + index);
      std::vector<std::string> parts;
      for (const collectives::Outgoing& each : stage.outgoing) {
        parts.push_back(
            line("send " + bytes(each) + "b to " + std::to_string(each.to) + " tag " + tag + " cpu 0"));
        require(parts.back(), stage.after == 0 ? ready : finished[stage.after - 1]);
      }
      for (const collectives::Incoming& each : stage.incoming) {
        parts.push_back(
            line("recv " + bytes(each) + "b from " + std::to_string(each.from) + " tag " + tag + " cpu 0"));
        require(parts.back(), finished.empty() ? ready : finished.back());
      }
      finished.push_back(calculation(work_of(schedule, stage) * reduce_ns_per_byte_, 0));
      require(finished.back(), index == 0 ? ready : finished[index - 1]);
      for (const std::string& part : parts) {
        require(finished.back(), part);
      }
    }
  }

 private:
  template <typename Message>
  static std::string bytes(const Message& message) {
    return std::to_string(std::max<std::size_t>(1, message.bytes()));
  }
  std::string line(const std::string& what) {
    std::string label = "l" + std::to_string(++labels_);
    text_ += label + ": " + what + "\n";
    return label;
  }
  std::string calculation(double nanoseconds, int cpu) {
    return line("calc " + std::to_string(std::llround(nanoseconds)) + " cpu " + std::to_string(cpu));
  }
  void require(const std::string& label, const std::string& other) { text_ += label + " requires " + other + "\n"; }

  std::string& text_;
  const double reduce_ns_per_byte_;
  std::size_t labels_ = 0;
  std::string computed_;
};

/// Of one rank, which has as many as any.
double messages_of(const Schedule& schedule) {
  double messages = 0;
  Stage stage;
  for (std::size_t index = 0; index < schedule.stages(); ++index) {
    stage.clear();
    schedule.describe(index, stage);
    messages += static_cast<double>(stage.outgoing.size());
  }
  return messages;
}

}  // namespace

Result<std::string> goal_text(const Step& step, const Cluster& cluster, const Fabric& fabric) {
  if (cluster.hosts < 2) {
    return Status::error(Code::invalid_argument,
                         "ranks of one host send no messages: a GOAL file needs two hosts or more");
  }
  const RankLayout layout = layout_of(cluster);
  double messages = 0;
  for (const StepBucket& bucket : step.buckets) {
    messages += messages_of(*schedule_of(0, cluster, layout, bucket.bytes)) * cluster.ranks();
  }
  if (messages > kMostGoalMessages) {
    return Status::error(Code::invalid_argument, "a GOAL file of " + std::to_string(cluster.ranks()) +
                                                     " ranks would have " + std::to_string(std::llround(messages)) +
                                                     " messages, and at most " +
                                                     std::to_string(std::llround(kMostGoalMessages)) +
                                                     " are written: give fewer hosts or ranks");
  }
  std::string text = "num_ranks " + std::to_string(cluster.ranks()) + "\n";
  for (int rank = 0; rank < cluster.ranks(); ++rank) {
    text += "\nrank " + std::to_string(rank) + " {\n";
    GoalRank lines(text, fabric.reduce_ns_per_byte);
    double now = 0;
    std::size_t tag = 0;
    for (const StepBucket& bucket : step.buckets) {
      const std::string ready = lines.compute(bucket.ready_ns - now);
      now = bucket.ready_ns;
      const auto schedule = schedule_of(rank, cluster, layout, bucket.bytes);
      lines.carry_out(*schedule, tag, ready);
      tag += schedule->stages();
    }
    lines.compute(std::max(0.0, step.compute_ns - now));
    text += "}\n";
  }
  return text;
}

}  // namespace ronde::plan
