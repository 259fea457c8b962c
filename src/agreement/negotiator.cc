#include "agreement/negotiator.h"

namespace ronde::agreement {

Status Negotiator::on_submit(const std::string& name, Descriptor descriptor, Nanoseconds deadline,
                             Nanoseconds timeout,
                             std::optional<control::RequestMessage>& message) {
  if (!closed_) {
    return closed_.with_tensor(name);
  }
  if (const auto owed = owed_.find(name); owed != owed_.end()) {
    Status error = owed->second.front();
    owed->second.pop_front();
    if (owed->second.empty()) {
      owed_.erase(owed);
    }
    return error;
  }
  sent_.emplace(name, deadline);
  message = control::RequestMessage{name, std::move(descriptor), label_, timeout};
  return {};
}

Result<Negotiator::Outcome> Negotiator::on_log(const control::Message& entry, int own_member) {
  Outcome outcome;
  if (const auto* exec = std::get_if<control::ExecEntry>(&entry)) {
    for (const control::ExecEntry::Item& item : exec->items) {
      if (sent_.erase(item.name) == 0 && closed_) {
        return Status::error(Code::internal, "agreed on '" + item.name + "', which this rank did not submit");
      }
    }
    outcome.agreed = exec->items;
  } else if (const auto* error = std::get_if<control::ErrorEntry>(&entry)) {
    ++label_;
    Status status = Status::error(error->code, error->text).with_rank(error->failed_rank).with_tensor(error->name);
    if (sent_.erase(error->name) > 0) {
      outcome.failed.emplace_back(error->name, std::move(status));
    } else {
      owed_[error->name].push_back(std::move(status));
    }
  } else if (const auto* left = std::get_if<control::LeftEntry>(&entry)) {
    const int rank = group_.ranks[static_cast<std::size_t>(left->member)];
    self_left_ |= left->member == own_member;
    const Status reason =
        left->member == own_member
            ? Status::error(Code::cancelled, "this rank shut down while the request was pending")
            : Status::error(Code::peer_left, "rank " + std::to_string(rank) +
                                                 " has left the job (it shut down or exited)")
                  .with_rank(rank);
    for (const auto& [name, deadline] : sent_) {
      outcome.failed.emplace_back(name, reason.with_tensor(name).with_context("'" + name + "'"));
    }
    sent_.clear();
    if (closed_) {
      closed_ = reason;
    }
  } else if (const auto* settings = std::get_if<control::SettingsEntry>(&entry)) {
    outcome.settings = *settings;
  } else if (std::holds_alternative<control::AllLeftEntry>(entry)) {
    all_left_ = true;
  }
  return outcome;
}

std::optional<std::string> Negotiator::overdue(Nanoseconds now, Nanoseconds grace) const {
  for (const auto& [name, deadline] : sent_) {
    if (now >= later(deadline, grace)) {
      return name;
    }
  }
  return std::nullopt;
}

std::vector<std::string> Negotiator::close(Status reason) {
  std::vector<std::string> names;
  for (const auto& [name, deadline] : sent_) {
    names.push_back(name);
  }
  sent_.clear();
  closed_ = std::move(reason);
  return names;
}

}  // namespace ronde::agreement
