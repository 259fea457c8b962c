#include "engine/plans/coordinator_role.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"

namespace ronde::engine {

namespace {

/// What each message means to the coordinator, of which there may be none here; no status: the message is for a member.
class Hearing {
 public:
  Hearing(agreement::Coordinator* coordinator, int from, int rank, Nanoseconds now)
      : coordinator_(coordinator), from_(from), rank_(rank), now_(now) {}

  std::optional<Status> operator()(control::RequestMessage& message) {
    return tell([&](agreement::Coordinator& it) { return it.on_request(from_, std::move(message), now_); });
  }
  std::optional<Status> operator()(const control::JoinMessage& message) {
    return tell([&](agreement::Coordinator& it) { return it.on_join(from_, message); });
  }
  std::optional<Status> operator()(const control::LeaveMessage& message) {
    if (coordinator_ != nullptr) {
      coordinator_->on_leave(from_, message.final);
    }
    return Status();  // one who leaves may not know that the coordinator is another
  }
  std::optional<Status> operator()(const control::EndMessage& message) {
    return tell([&](agreement::Coordinator& it) { return it.on_end(from_, message); });
  }
  std::optional<Status> operator()(const control::PreparedMessage& message) {
    return tell([&](agreement::Coordinator& it) { return it.on_prepared(from_, message); });
  }
  std::optional<Status> operator()(const control::RefusedMessage& message) {
    return tell([&](agreement::Coordinator& it) { return it.on_refused(from_, message), Status(); });
  }
  std::optional<Status> operator()(const control::CancelMessage& message) {
    return tell([&](agreement::Coordinator& it) { return it.on_cancel(from_, message), Status(); });
  }
  std::optional<Status> operator()(const control::FullMessage& message) {
    return tell([&](agreement::Coordinator& it) { return it.on_full(from_, message); });
  }
  std::optional<Status> operator()(const control::FrozenMessage& message) {
    return tell([&](agreement::Coordinator& it) { return it.on_frozen(message), Status(); });
  }
  std::optional<Status> operator()(const control::FreeMessage& message) {
    return tell([&](agreement::Coordinator& it) { return it.on_free(from_, message.bucket); });
  }
  template <typename Other>
  std::optional<Status> operator()(const Other&) {
    return std::nullopt;
  }

 private:
  template <typename Tell>
  Status tell(const Tell& tell) {
    if (coordinator_ == nullptr) {
      return Status::error(Code::internal, "rank " + std::to_string(rank_) + " took this rank for the coordinator");
    }
    return tell(*coordinator_);
  }

  agreement::Coordinator* coordinator_;
  int from_;
  int rank_;
  Nanoseconds now_;
};

}  // namespace

std::optional<Status> CoordinatorRole::read(int from, control::Message& message, Nanoseconds now) {
  const int rank = group_.ranks[static_cast<std::size_t>(from)];
  if (const auto* request = std::get_if<control::RequestMessage>(&message);
      request != nullptr && coordinator_ && observer_ != nullptr) {
    observer_->ready(group_.id, request->name, request->descriptor, rank, now);
  }
  return std::visit(Hearing(coordinator_ ? &*coordinator_ : nullptr, from, rank, now), message);
}

bool CoordinatorRole::publish(control::Control& control) {
  if (!coordinator_) {
    return false;
  }
  const std::vector<control::Message> entries = coordinator_->take_log();
  for (const control::Message& entry : entries) {
    for (int member = 0; member < group_.size(); ++member) {
      control.send(member, {group_.id, entry});
    }
  }
  return !entries.empty();
}

void CoordinatorRole::check_time(Nanoseconds now, int rank) {
  if (!coordinator_) {
    return;
  }
  if (now >= coordinator_->next_deadline()) {
    coordinator_->on_time(now);
  }
  if (!coordinator_->is_waiting() || !stall_.is_due(now) || !log_enabled(LogLevel::warning)) {
    return;
  }
  for (const std::string& line : stall_.report(coordinator_->waiting(), now)) {
    log(LogLevel::warning, rank, line);
  }
}

Nanoseconds CoordinatorRole::next_timer() const {
  if (!coordinator_) {
    return kNever;
  }
  const bool reports = coordinator_->is_waiting() && log_enabled(LogLevel::warning);
  return std::min(coordinator_->next_deadline(), reports ? stall_.next() : kNever);
}

}  // namespace ronde::engine
