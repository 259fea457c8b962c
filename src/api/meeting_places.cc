#include "api/meeting_places.h"

#include <utility>

namespace ronde::api {

Result<engine::JoinOptions> MeetingPlaces::complete(const engine::JoinOptions& options) {
  std::lock_guard lock(membership_mutex_);
  return engine::complete(options, membership_);
}

Status MeetingPlaces::serve_store(const engine::JoinOptions& options) {
  std::lock_guard lock(served_mutex_);
  RONDE_ASSIGN_OR_RETURN(std::unique_ptr<store::StoreServer> server, engine::serve_store(options, served_at_));
  if (server) {
    served_ = std::move(server);
  }
  return {};
}

void MeetingPlaces::leave_at_exit() {
  const std::unique_lock lock(membership_mutex_, std::try_to_lock);
  if (lock.owns_lock() && membership_) {
    membership_->leave();
  }
}

}  // namespace ronde::api
