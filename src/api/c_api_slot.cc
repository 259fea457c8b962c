// The C interface: slots, requests that come back each step.
#include <memory>
#include <mutex>
#include <vector>

#include "api/convert.h"
#include "api/guard.h"
#include "api/handles.h"

using namespace ronde;       // NOLINT: this file is the seam of the whole project
using namespace ronde::api;  // NOLINT

namespace {

struct Slot {
  ronde_ticket handle;
  bool submitted = false;
};

/// Slots of all engines of the process: a slot is one number, since every further argument costs a caller from Python
/// about as much as the submit itself.
class SlotTable {
 public:
  static SlotTable& instance() {
    static auto* table = new SlotTable;
    return *table;
  }

  std::int64_t add(std::shared_ptr<Slot> slot) {
    std::lock_guard lock(mutex_);
    slots_.push_back(std::move(slot));
    return static_cast<std::int64_t>(slots_.size()) - 1;
  }
  Result<std::shared_ptr<Slot>> find(std::int64_t number) {
    std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(number);
    if (number < 0 || index >= slots_.size() || !slots_[index]) {
      return Status::error(Code::invalid_argument, "there is no slot " + std::to_string(number));
    }
    return slots_[index];
  }
  void remove(std::int64_t number) {
    std::lock_guard lock(mutex_);
    slots_[static_cast<std::size_t>(number)].reset();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Slot>> slots_;  ///< numbers are not used again
};

Status submit(const std::shared_ptr<Slot>& owner) {
  Slot& slot = *owner;
  const std::shared_ptr<engine::Runner> runner = slot.handle.runner.lock();
  if (!runner) {
    return Status::error(Code::not_initialized, "the slot's engine has shut down; register the slot again after init");
  }
  if (slot.submitted) {
    return runner->resubmit(slot.handle.ticket, owner);
  }
  slot.handle.ticket->set_owner(owner);
  if (Status status = runner->submit(slot.handle.ticket); !status) {
    slot.handle.ticket->take_owner();
    return status;
  }
  slot.submitted = true;
  return {};
}

Result<std::shared_ptr<Slot>> submitted(std::int64_t number) {
  RONDE_ASSIGN_OR_RETURN(std::shared_ptr<Slot> slot, SlotTable::instance().find(number));
  if (!slot->submitted) {
    return Status::error(Code::invalid_argument, "slot " + std::to_string(number) + " ('" +
                                                     slot->handle.ticket->name() + "') was never submitted");
  }
  return slot;
}

}  // namespace

ronde_status ronde_register_slot(ronde_engine* engine, const ronde_request* request, int64_t* slot) {
  return guarded([&]() -> Status {
    if (slot == nullptr) {
      return null_argument("slot");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    auto made = std::make_shared<Slot>();
    made->handle.runner = runner;
    made->handle.belongs_to_slot = true;
    RONDE_ASSIGN_OR_RETURN(Request value, request_from(request, *runner));
    RONDE_RETURN_IF_ERROR(runner->check(value));
    engine::DoneCallback on_done;
    if (request->on_done != nullptr) {
      // The slot lives until its callback has run: see submit().
      on_done = [call = request->on_done, user = request->user, raw = made.get()](
                    const engine::TicketPtr&, const Status& status) { call(user, &raw->handle, report(status)); };
    }
    made->handle.ticket = std::make_shared<engine::Ticket>(std::move(value), std::move(on_done));
    made->handle.ticket->keep_name();
    *slot = SlotTable::instance().add(std::move(made));
    return {};
  });
}

ronde_status ronde_submit_slot(int64_t slot) {
  return guarded([&]() -> Status {
    RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> found, SlotTable::instance().find(slot));
    return submit(found);
  });
}

ronde_status ronde_submit_slots(const int64_t* slots, size_t count, size_t* submitted) {
  return guarded([&]() -> Status {
    if (submitted == nullptr) {
      return null_argument("submitted");
    }
    *submitted = 0;
    if (slots == nullptr && count > 0) {
      return null_argument("slots");
    }
    for (; *submitted < count; ++*submitted) {
      RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> found, SlotTable::instance().find(slots[*submitted]));
      RONDE_RETURN_IF_ERROR(submit(found));
    }
    return {};
  });
}

ronde_status ronde_wait_slot(int64_t slot, double limit_s) {
  return guarded([&]() -> Status {
    RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> found, submitted(slot));
    return wait(found->handle, limit_s);
  });
}

ronde_status ronde_test_slot(int64_t slot, int32_t* done) {
  return guarded([&]() -> Status {
    if (done == nullptr) {
      return null_argument("done");
    }
    RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> found, submitted(slot));
    *done = looked_at(found->handle) ? 1 : 0;
    return {};
  });
}

ronde_status ronde_slot_ticket(int64_t slot, ronde_ticket** ticket) {
  return guarded([&]() -> Status {
    if (ticket == nullptr) {
      return null_argument("ticket");
    }
    RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> found, SlotTable::instance().find(slot));
    *ticket = found->submitted ? &found->handle : nullptr;
    return {};
  });
}

ronde_status ronde_unregister_slot(int64_t slot) {
  return guarded([&]() -> Status {
    RONDE_ASSIGN_OR_RETURN(const std::shared_ptr<Slot> found, SlotTable::instance().find(slot));
    if (found->submitted) {
      RONDE_RETURN_IF_ERROR(settle(found->handle));
      if (const std::shared_ptr<engine::Runner> runner = found->handle.runner.lock()) {
        runner->forget(*found->handle.ticket);
      }
    }
    SlotTable::instance().remove(slot);
    return {};
  });
}
