// ReplayOutbox: what agreement and replay leave for the engine to do, since it cannot be done where they are called:
// messages to the coordinator, plans, launches and requests that are over.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "control/messages.h"
#include "types/thresholds.h"

namespace ronde::engine {

class ReplayOutbox {
 public:
  /// The instance of this bucket that is under way is to be launched: Replay::launch().
  struct Launch {
    std::uint32_t bucket = 0;
  };
  /// Of the log: what is to be planned together, the row that holds for what comes after it, or a launch.
  using Answer = std::variant<std::vector<control::ExecEntry::Item>, Thresholds, Launch>;

  /// What the engine has to do, in this order.
  struct Outcome {
    std::vector<std::pair<std::string, Status>> failed;  ///< requests that are over
    std::optional<control::SettingsEntry> settings;
    std::vector<Answer> agreed;  ///< in this order
    std::vector<std::pair<control::Message, Nanoseconds>>
        messages;                                  ///< to the coordinator; with a request its deadline
    std::optional<control::JoinDoneEntry> joined;  ///< all members have
    std::optional<std::string> bug;
  };

  // ---- Any thread.

  /// Whether the engine was called since take_call().
  bool is_called() const { return is_called_.load(std::memory_order_acquire); }
  /// The engine should look: here, or at clocks.
  void call() { is_called_.store(true, std::memory_order_release); }

  // ---- Under the gate (replay.h). Each calls the engine.

  void send(control::Message message, Nanoseconds deadline = kNever) {
    outcome_.messages.emplace_back(std::move(message), deadline);
    call();
  }
  void fail(const std::string& name, Status status) {
    outcome_.failed.emplace_back(name, std::move(status));
    call();
  }
  void agree(Answer answer) {
    outcome_.agreed.push_back(std::move(answer));
    call();
  }
  void settle(const control::SettingsEntry& entry) {
    outcome_.settings = entry;
    call();
  }
  void join(const control::JoinDoneEntry& entry) {
    outcome_.joined = entry;
    call();
  }
  void report_bug(std::string what) {
    outcome_.bug = std::move(what);
    call();
  }

  // ---- Under the progress lock.

  /// is_called(), and not again until the next call().
  bool take_call() {
    return is_called_.load(std::memory_order_relaxed) && is_called_.exchange(false, std::memory_order_acquire);
  }
  /// Requires: the gate besides.
  Outcome take() { return std::exchange(outcome_, {}); }

 private:
  std::atomic<bool> is_called_{false};
  Outcome outcome_;  ///< guarded by the gate
};

}  // namespace ronde::engine
