#include "flights.h"

#include <algorithm>
#include <utility>

namespace ronde::tf {

namespace {

/// How long a request that nobody waits for may hold its name, in seconds: the other ranks may never come.
constexpr double kGrace = 1.0;

}  // namespace

Flight::~Flight() {
  if (ticket_ != nullptr) {
    ronde_release(ticket_);
  }
  drop_tensors();
}

void Flight::drop_tensors() {
  for (Tensor* tensor : tensors_) {
    functions().delete_tensor(tensor);
  }
  tensors_.clear();
}

bool Flight::is_done() const {
  std::int32_t done = 0;
  return ronde_test(ticket_, &done) != RONDE_OK || done != 0;
}

ronde_status Flight::submit(const ronde_request& request) { return ronde_submit(nullptr, &request, &ticket_); }

ronde_status Flight::wait(double limit_s) {
  ronde_status status = RONDE_OK;
  do {
    status = ronde_wait(ticket_, limit_s);
  } while (status == RONDE_INTERRUPTED);
  return status;
}

Outcome Flight::outcome() const {
  ronde_error_info info{};
  info.struct_size = sizeof(info);
  const ronde_status status = ronde_ticket_error(ticket_, &info);
  return status == RONDE_OK ? bindings::failure_of(info) : bindings::last_failure(status);
}

FlightTable& FlightTable::instance() {
  static auto* table = new FlightTable;  // threads may still use it while the process ends
  return *table;
}

ronde_status FlightTable::submit(std::shared_ptr<Flight> flight, const ronde_request& request, std::int64_t* token) {
  ronde_status status = flight->submit(request);
  if (status == RONDE_DUPLICATE_NAME) {
    if (const std::shared_ptr<Flight> other = find_name(flight->name())) {
      other->wait(kGrace);
      if (other->is_done()) {
        std::lock_guard lock(mutex_);
        other->drop_tensors();
      }
      status = flight->submit(request);
    }
  }
  if (status != RONDE_OK) {
    return status;
  }
  std::lock_guard lock(mutex_);
  *token = ++last_token_;
  flights_.emplace(*token, std::move(flight));
  return RONDE_OK;
}

std::shared_ptr<Flight> FlightTable::find(std::int64_t token) {
  std::lock_guard lock(mutex_);
  const auto found = flights_.find(token);
  return found == flights_.end() ? nullptr : found->second;
}

std::shared_ptr<Flight> FlightTable::take(std::int64_t token) {
  std::lock_guard lock(mutex_);
  const auto found = flights_.find(token);
  if (found == flights_.end()) {
    return nullptr;
  }
  std::shared_ptr<Flight> flight = std::move(found->second);
  flights_.erase(found);
  return flight;
}

std::shared_ptr<Flight> FlightTable::find_name(const std::string& name) {
  std::lock_guard lock(mutex_);
  std::int64_t newest = 0;
  for (const auto& [token, flight] : flights_) {
    if (flight->name() == name) {
      newest = std::max(newest, token);
    }
  }
  return newest == 0 ? nullptr : flights_.at(newest);
}

}  // namespace ronde::tf
