// MeetingPlaces: what the ranks of this process's jobs meet by, and what stays until the process ends: its membership
// of what a launcher of the site has started, and the store that it serves for others.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "engine/process/world.h"

namespace ronde::api {

/// Any thread.
class MeetingPlaces {
 public:
  /// As engine::complete(), of the one membership of this process.
  Result<engine::JoinOptions> complete(const engine::JoinOptions& options);
  /// As engine::serve_store(): where the ranks meet in a store that this process serves.
  Status serve_store(const engine::JoinOptions& options);
  /// The process exits. Does nothing while another thread is in complete(), where it may wait for others.
  void leave_at_exit();

 private:
  std::mutex membership_mutex_;
  std::unique_ptr<site::Membership> membership_;  ///< guarded by membership_mutex_
  std::mutex served_mutex_;
  std::string served_at_;                       ///< guarded by served_mutex_: the address of the next
  std::unique_ptr<store::StoreServer> served_;  ///< guarded by served_mutex_
};

}  // namespace ronde::api
