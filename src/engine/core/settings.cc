#include "engine/core/settings.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "base/environment.h"
#include "base/site_settings.h"

namespace ronde::engine {

namespace {

/// Seconds; 0 means "no limit" where `zero_is_never`.
Status read_seconds(const char* name, bool zero_is_never, Nanoseconds& target) {
  RONDE_ASSIGN_OR_RETURN(const std::optional<double> seconds, environment_number(name, 0.0));
  if (seconds) {
    target = *seconds == 0.0 && zero_is_never ? kNever : from_seconds(*seconds);
  }
  return {};
}

bool is_started_by_mpi() {
  static constexpr std::array<const char*, 4> kSigns = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"};
  return std::ranges::any_of(kSigns, environment_says);
}

}  // namespace

Result<Settings> settings_from_environment() {
  RONDE_RETURN_IF_ERROR(site_settings().status());
  Settings settings;
  RONDE_RETURN_IF_ERROR(read_seconds("RONDE_TIMEOUT_S", true, settings.timeout));
  RONDE_RETURN_IF_ERROR(read_seconds("RONDE_STALL_S", true, settings.stall));
  RONDE_RETURN_IF_ERROR(read_seconds("RONDE_INIT_TIMEOUT_S", true, settings.init_timeout));
  RONDE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> threshold,
                         environment_integer("RONDE_FUSION_THRESHOLD", 0, std::numeric_limits<std::int64_t>::max()));
  if (threshold) {
    settings.fusion_threshold = static_cast<std::uint64_t>(*threshold);
  }
  RONDE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> replay, environment_integer("RONDE_REPLAY", 0, 1));
  settings.replay = replay.value_or(1) == 1;
  RONDE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> probe, environment_integer("RONDE_PROBE", 0, 1));
  settings.probe = probe.value_or(1) == 1;
  if (const std::optional<std::string> medium = environment_text("RONDE_TRANSPORT")) {
    if (medium != "shm" && medium != "tcp" && medium != "hosts" && medium != "ofi") {
      return Status::error(Code::invalid_argument,
                           "RONDE_TRANSPORT is '" + *medium +
                               "'; expected shm (the ranks are on one host), hosts (shared memory where ranks find "
                               "it, else TCP), tcp, or ofi (as hosts, but through libfabric in the place of TCP)");
    }
    settings.medium = medium == "tcp"     ? Settings::Medium::tcp
                      : medium == "hosts" ? Settings::Medium::hosts
                      : medium == "ofi"   ? Settings::Medium::ofi
                                          : Settings::Medium::shared_memory;
  }
  if (const std::optional<std::string> backend = environment_text("RONDE_BACKEND")) {
    if (backend != "own" && backend != "mpi" && backend != "oneccl") {
      return Status::error(Code::invalid_argument, "RONDE_BACKEND is '" + *backend +
                                                       "'; expected own, mpi (through the site's MPI), or oneccl "
                                                       "(through Intel's oneCCL)");
    }
    settings.library = backend == "mpi"      ? Settings::Library::mpi
                       : backend == "oneccl" ? Settings::Library::oneccl
                                             : Settings::Library::none;
    // Ranks that torchrun has started, say, would each be alone in MPI: the site means those that MPI has started.
    if (settings.library == Settings::Library::mpi && !environment_says("RONDE_BACKEND") && !is_started_by_mpi()) {
      settings.library = Settings::Library::none;
    }
  }
  settings.address = environment_text("RONDE_ADDRESS").value_or(settings.address);
  RONDE_RETURN_IF_ERROR(read_seconds("RONDE_HOST_TIMEOUT_S", true, settings.host_timeout));
  if (settings.host_timeout < 3 * kSecond) {
    return Status::error(Code::invalid_argument,
                         "RONDE_HOST_TIMEOUT_S is below 3: a host that is there may be silent for as long; expected "
                         "3 or more, or 0 for no limit");
  }
  settings.host_id = environment_text("RONDE_HOST_ID").value_or("");
  if (const std::optional<std::string> integrity = environment_text("RONDE_TCP_INTEGRITY")) {
    static constexpr std::array<std::string_view, 4> kNames = {"off", "checksum", "mac", "encrypt"};  // as the enum
    const auto found = std::ranges::find(kNames, *integrity);
    if (found == kNames.end()) {
      return Status::error(Code::invalid_argument,
                           "RONDE_TCP_INTEGRITY is '" + *integrity + "'; expected off, checksum, mac or encrypt");
    }
    settings.integrity = static_cast<transport::Integrity>(found - kNames.begin());
  }
  settings.congestion_control = environment_text("RONDE_TCP_CONGESTION").value_or("");
  settings.ofi_provider = environment_text("RONDE_OFI_PROVIDER").value_or("");
  settings.timeline = environment_text("RONDE_TIMELINE").value_or("");
  RONDE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> mark_cycles,
                         environment_integer("RONDE_TIMELINE_MARK_CYCLES", 0, 1));
  settings.mark_cycles = mark_cycles.value_or(0) == 1;
  return settings;
}

}  // namespace ronde::engine
