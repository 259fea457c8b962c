// World: how a process becomes a member of a job: who it is (options, else environment), where the ranks meet, and the
// running engine that comes of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/process/runner.h"
#include "site/membership.h"
#include "store/store_server.h"

namespace ronde::engine {

/// Under which the ranks of the process's shared engine meet.
inline constexpr std::string_view kSharedMeeting = "shared";

/// What the caller says about the job; what is left out comes from the environment.
struct JoinOptions {
  std::optional<int> rank, size, local_rank, local_size, cross_rank, cross_size;
  std::optional<std::string> store;    ///< "unix:/path" or "tcp:host:port"
  std::optional<std::string> key;      ///< 64 hex digits
  std::optional<std::string> meeting;  ///< of an engine of the caller's own, or of a group
  std::optional<std::string> address;  ///< where this rank listens while ranks connect by TCP
  Nanoseconds init_timeout = 0;        ///< 0: from the settings
  Nanoseconds timeout = 0;             ///< 0: from the settings
};

/// From options, else RONDE_RANK, RONDE_SIZE, RONDE_LOCAL_RANK, ..., else a job of one rank. INVALID_ARGUMENT if they
/// contradict each other.
Result<Topology> topology_of(const JoinOptions& options);

/// With what a launcher that is not ours says of this process, where neither the options nor RONDE_SIZE say who it is.
/// Then ranks meet, once in a process: `membership` keeps what this one serves, and must live as long as its engines.
/// Collective at the first time; blocks up to the init timeout. INVALID_ARGUMENT if launchers and RONDE_SIZE
/// contradict.
Result<JoinOptions> complete(const JoinOptions& options, std::unique_ptr<site::Membership>& membership);

/// Starts the server of a store over TCP that this rank is to serve, as rank 0 does for a job that meets at
/// tcp:host:port; null if there is none, or `served` is its address already, which becomes that address. SYSTEM_ERROR
/// naming the address.
Result<std::unique_ptr<store::StoreServer>> serve_store(const JoinOptions& options, std::string& served);

/// Meets the other ranks and starts an engine. Collective; blocks up to the init timeout. Ranks meet in `meeting` and
/// `epoch`, which counts the meetings of that name in this process: a rank already in the next init never meets one
/// still in the old. `clock` must outlive the runner. `ids`: those of groups in the jobs that this process has had
/// under this name; null: it had none.
Result<std::unique_ptr<Runner>> join_world(const JoinOptions& options, const std::string& meeting, std::uint64_t epoch,
                                           const Clock& clock, std::shared_ptr<GroupIds> ids = nullptr);

/// Makes a group of these ranks of the job with its other members, who do the same under the same `meeting` of the
/// options; of these also counts where they meet (`store`, `key`) and the limits (0: the job's). Collective over the
/// members; blocks up to the init timeout. Gives this rank's id for the group (MemberGroups::make).
Result<std::int32_t> make_group(Runner& runner, const JoinOptions& options, const std::vector<int>& ranks);

}  // namespace ronde::engine
