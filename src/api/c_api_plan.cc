// The C interface: persistent plans, requests that are started and waited for together.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "api/convert.h"
#include "api/guard.h"
#include "api/handles.h"
#include "base/stable_hash.h"

using namespace ronde;       // NOLINT: this file is the seam of the whole project
using namespace ronde::api;  // NOLINT

struct ronde_plan {
  std::weak_ptr<engine::Runner> runner;  ///< gone after shutdown; the tickets are done then
  std::vector<engine::TicketPtr> tickets;
  bool is_started = false;  ///< and not waited for
};

namespace {

/// Of the names, in whatever order: ranks that make a plan of the same ones give it the same number, without a word.
std::uint64_t number_of(const std::vector<Request>& requests) {
  std::vector<std::string_view> names;
  for (const Request& request : requests) {
    names.push_back(request.name);
  }
  std::sort(names.begin(), names.end());
  std::uint64_t number = 0;
  for (const std::string_view name : names) {
    number = mix(number ^ stable_hash(name));
  }
  return std::max<std::uint64_t>(number, 1);  // 0 stands for no plan
}

Result<std::shared_ptr<engine::Runner>> runner_of(const ronde_plan& plan) {
  std::shared_ptr<engine::Runner> runner = plan.runner.lock();
  if (!runner) {
    return Status::error(Code::not_initialized, "the plan's engine has shut down; make the plan again after init");
  }
  return runner;
}

/// All or nothing: a ticket is done unless its last start was not waited for.
Status check_startable(const ronde_plan& plan) {
  if (plan.is_started) {
    return Status::error(Code::duplicate_name,
                         "the plan of '" + plan.tickets.front()->name() + "' was started and not waited for since");
  }
  return {};
}

/// `over` becomes true once every ticket was waited for; else the plan is still started.
Status wait_for_all(const ronde_plan& plan, engine::Runner& runner, Nanoseconds limit, bool& over) {
  const RealClock clock;
  const Nanoseconds until = limit == kNever ? kNever : later(clock.now(), limit);
  Status first;
  for (const engine::TicketPtr& ticket : plan.tickets) {
    RONDE_RETURN_IF_ERROR(runner.wait(*ticket, until == kNever ? kNever : time_left(clock, until)));
    if (first.is_ok()) {
      first = ticket->status();
    }
  }
  over = true;
  return first;
}

}  // namespace

ronde_status ronde_plan_create(ronde_engine* engine, const ronde_request* requests, size_t count, ronde_plan** plan) {
  return guarded([&]() -> Status {
    if (plan == nullptr || requests == nullptr || count == 0) {
      return plan == nullptr ? null_argument("plan")
                             : Status::error(Code::invalid_argument, "a plan has at least one request");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, api::runner_of(engine));
    std::vector<Request> values;
    std::unordered_set<std::string> names;
    const auto* at = reinterpret_cast<const std::byte*>(requests);
    for (size_t i = 0; i < count; ++i, at += requests->struct_size) {
      const auto* each = reinterpret_cast<const ronde_request*>(at);
      RONDE_ASSIGN_OR_RETURN(Request value, request_from(each, *runner));
      RONDE_RETURN_IF_ERROR(runner->check(value));
      if (value.kind != OpKind::allreduce || each->on_done != nullptr) {
        return Status::error(Code::not_implemented, "'" + value.name + "': a plan holds all-reduces without on_done");
      }
      if (!values.empty() && value.group != values.front().group) {
        return Status::error(Code::invalid_argument,
                             "'" + value.name + "' is a request of group " + std::to_string(value.group) + ", '" +
                                 values.front().name + "' of group " + std::to_string(values.front().group) +
                                 ": the requests of a plan belong to one group; make a plan for each");
      }
      if (!names.insert(value.name).second) {
        return Status::error(Code::duplicate_name, "the plan has '" + value.name + "' twice");
      }
      values.push_back(std::move(value));
    }
    const PlannedGroup group{number_of(values), static_cast<std::uint32_t>(count)};
    auto made = std::make_unique<ronde_plan>();
    made->runner = runner;
    for (Request& value : values) {
      value.planned_group = group;
      made->tickets.push_back(std::make_shared<engine::Ticket>(std::move(value)));
      made->tickets.back()->keep_name();
    }
    *plan = made.release();
    return {};
  });
}

ronde_status ronde_plan_start(ronde_plan* plan) {
  return guarded([&]() -> Status {
    if (plan == nullptr) {
      return null_argument("plan");
    }
    RONDE_RETURN_IF_ERROR(check_startable(*plan));
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(*plan));
    plan->is_started = true;
    return runner->submit_all(plan->tickets);
  });
}

ronde_status ronde_plan_wait(ronde_plan* plan, double limit_s) {
  return guarded([&]() -> Status {
    if (plan == nullptr) {
      return null_argument("plan");
    }
    if (!plan->is_started) {
      return Status::error(Code::invalid_argument, "the plan was not started");
    }
    const std::shared_ptr<engine::Runner> runner = plan->runner.lock();
    Status status;
    bool over = !runner;
    if (runner) {
      status = wait_for_all(*plan, *runner, limit_from(limit_s), over);
    } else {
      for (const engine::TicketPtr& ticket : plan->tickets) {
        status = status.is_ok() ? ticket->status() : status;
      }
    }
    plan->is_started = !over;
    return status;
  });
}

ronde_status ronde_plan_destroy(ronde_plan* plan) {
  return guarded([&]() -> Status {
    if (plan == nullptr) {
      return {};
    }
    if (const std::shared_ptr<engine::Runner> runner = plan->runner.lock()) {
      for (const engine::TicketPtr& ticket : plan->tickets) {
        if (plan->is_started) {
          RONDE_RETURN_IF_ERROR(runner->release(*ticket));
        }
        runner->forget(*ticket);
      }
    }
    delete plan;
    return {};
  });
}
