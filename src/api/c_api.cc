// The C interface: library, life of an engine, topology. Thin: checks, converts, calls.
#include <algorithm>
#include <cstring>
#include <string>

#include "api/convert.h"
#include "api/guard.h"
#include "api/handles.h"
#include "backend/mpi/mpi.h"
#include "base/log.h"
#include "base/of_this_thread.h"
#include "base/version.h"
#include "collectives/tuning/table.h"
#include "store/strangers.h"

#ifndef RONDE_VERSION
#error "the build defines RONDE_VERSION"
#endif

using namespace ronde;       // NOLINT: this file is the seam of the whole project
using namespace ronde::api;  // NOLINT

static_assert(kVersion == RONDE_VERSION, "base/version.h and CMakeLists.txt differ");
static_assert(static_cast<int>(Code::internal) == RONDE_INTERNAL && static_cast<int>(Code::forked) == RONDE_FORKED &&
              static_cast<int>(Code::peer_lost) == RONDE_PEER_LOST);
static_assert(static_cast<int>(DType::uint64) == RONDE_UINT64 && static_cast<int>(DType::bfloat16) == RONDE_BFLOAT16);
static_assert(static_cast<int>(OpKind::exscan) == RONDE_EXSCAN && static_cast<int>(ReduceOp::bit_xor) == RONDE_BIT_XOR);

namespace ronde::api {

Result<std::shared_ptr<engine::Runner>> runner_of(ronde_engine* engine) {
  std::shared_ptr<engine::Runner> runner = engine == nullptr ? Process::instance().shared() : engine->runner;
  if (!runner) {
    return Status::error(Code::not_initialized, "Ronde is not initialised; call init first");
  }
  return runner;
}

void fill(ronde_error_info& info, const Status& status) {
  info.status = static_cast<ronde_status>(status.code());
  info.failed_rank = status.failed_rank();
  info.message = status.message().c_str();
  info.tensor = status.tensor().c_str();
}

}  // namespace ronde::api

uint32_t ronde_abi_version(void) { return RONDE_ABI_VERSION; }

const char* ronde_version(void) { return RONDE_VERSION; }

const char* ronde_last_error(void) { return last_error().message().c_str(); }

ronde_status ronde_last_error_info(ronde_error_info* info) {
  if (info == nullptr || info->struct_size < sizeof(ronde_error_info)) {
    return RONDE_INVALID_ARGUMENT;  // without a sentence: the one asked for shall stay
  }
  fill(*info, last_error());
  return RONDE_OK;
}

const char* ronde_status_name(ronde_status status) { return code_name(static_cast<Code>(status)).data(); }

size_t ronde_dtype_bytes(ronde_dtype dtype) { return dtype_bytes(static_cast<DType>(dtype)); }

ronde_status ronde_set_log(ronde_log_fn sink, void* user) {
  return guarded([&]() -> Status {
    if (sink == nullptr) {
      set_log_sink({});
    } else {
      set_log_sink([sink, user](LogLevel level, int rank, const std::string& message) {
        sink(user, static_cast<int32_t>(level), rank, message.data(), message.size());
      });
    }
    return {};
  });
}

ronde_status ronde_init(const ronde_options* options) {
  return guarded([&]() -> Status {
    RONDE_ASSIGN_OR_RETURN(const engine::JoinOptions join, options_from(options));
    return Process::instance().init(join);
  });
}

ronde_status ronde_shutdown(void) {
  return guarded([] { return Process::instance().shutdown(); });
}

int32_t ronde_is_initialized(void) {
  const Process& process = Process::instance();
  return process.check_not_forked() && process.shared() ? 1 : 0;
}

ronde_status ronde_engine_create(const ronde_options* options, ronde_engine** engine) {
  return guarded([&]() -> Status {
    if (engine == nullptr) {
      return null_argument("engine");
    }
    RONDE_ASSIGN_OR_RETURN(const engine::JoinOptions join, options_from(options));
    RONDE_ASSIGN_OR_RETURN(std::shared_ptr<engine::Runner> runner, Process::instance().create(join));
    *engine = new ronde_engine{std::move(runner)};
    return {};
  });
}

ronde_status ronde_engine_destroy(ronde_engine* engine) {
  return guarded([&]() -> Status {
    if (engine == nullptr) {
      return {};
    }
    if (engine::Runner::in_callback()) {
      return Status::error(Code::would_deadlock, "destroying an engine inside a completion callback");
    }
    const std::unique_ptr<ronde_engine> owned(engine);
    return owned->runner->shutdown();
  });
}

ronde_status ronde_get_topology(ronde_engine* engine, ronde_topology* topology) {
  return guarded([&]() -> Status {
    if (topology == nullptr || topology->struct_size < sizeof(ronde_topology)) {
      return Status::error(Code::invalid_argument, "topology is null or its struct_size is not set");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    const engine::Topology& from = runner->engine().topology();
    *topology = {topology->struct_size, from.rank,       from.size,       from.local_rank,
                 from.local_size,       from.cross_rank, from.cross_size, from.epoch};
    return {};
  });
}

ronde_status ronde_get_counters(ronde_engine* engine, ronde_counters* counters) {
  return guarded([&]() -> Status {
    if (counters == nullptr || counters->struct_size < sizeof(size_t)) {
      return Status::error(Code::invalid_argument, "counters is null or its struct_size is not set");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    const engine::EngineSet& engines = runner->engines();
    const auto counted = [&](std::atomic<std::uint64_t> engine::Counters::*which) {
      return engines.sum([=](const engine::Engine& each) { return (each.counters().*which).load(); });
    };
    const auto replayed = [&](std::atomic<std::uint64_t> engine::ReplayCounters::*which) {
      return engines.sum([=](const engine::Engine& each) { return (each.replay_counters().*which).load(); });
    };
    using Negotiation = engine::Counters;
    using Replaying = engine::ReplayCounters;
    const ronde_counters all = {counters->struct_size,
                                counted(&Negotiation::requests),
                                counted(&Negotiation::plans),
                                counted(&Negotiation::fused_tensors),
                                counted(&Negotiation::bytes_reduced),
                                counted(&Negotiation::control_messages),
                                replayed(&Replaying::entries),
                                replayed(&Replaying::installs),
                                replayed(&Replaying::breaks),
                                replayed(&Replaying::instances),
                                counted(&Negotiation::direct_bytes) + replayed(&Replaying::direct_bytes),
                                store::strangers()};
    std::memcpy(counters, &all, std::min(counters->struct_size, sizeof all));  // callers may know fewer or more
    return {};
  });
}

ronde_status ronde_get_table(ronde_engine* engine, const char** text, size_t* bytes) {
  return guarded([&]() -> Status {
    if (text == nullptr || bytes == nullptr) {
      return null_argument(text == nullptr ? "text" : "bytes");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    struct TableText;
    auto& row = of_this_thread<std::string, TableText>();
    row = runner->engine().table_row();
    *text = row.c_str();
    *bytes = row.size();
    return {};
  });
}

ronde_status ronde_get_backend(ronde_engine* engine, const char** name, int32_t* mpi_threads) {
  return guarded([&]() -> Status {
    if (name == nullptr || mpi_threads == nullptr) {
      return null_argument(name == nullptr ? "name" : "mpi_threads");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    const std::string_view backend = runner->engine().backend_name();
    *name = backend.data();  // of a literal
    *mpi_threads = backend == "mpi" && backend::mpi_allows_threads() ? 1 : 0;
    return {};
  });
}

// ---- Process sets

ronde_status ronde_group_create(ronde_engine* engine, const int32_t* ranks, size_t count, int32_t* group) {
  return guarded([&]() -> Status {
    if (group == nullptr || (ranks == nullptr && count > 0)) {
      return null_argument(group == nullptr ? "group" : "ranks");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    RONDE_ASSIGN_OR_RETURN(*group, runner->process_sets().make({ranks, ranks + count}));
    return {};
  });
}

ronde_status ronde_group_make(ronde_engine* engine, const ronde_options* options, const int32_t* ranks, size_t count,
                              int32_t* group) {
  return guarded([&]() -> Status {
    if (group == nullptr || (ranks == nullptr && count > 0)) {
      return null_argument(group == nullptr ? "group" : "ranks");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    RONDE_ASSIGN_OR_RETURN(const engine::JoinOptions join, options_from(options));
    RONDE_ASSIGN_OR_RETURN(*group, Process::instance().make_group(*runner, join, {ranks, ranks + count}));
    return {};
  });
}

ronde_status ronde_group_destroy(ronde_engine* engine, int32_t group) {
  return guarded([&]() -> Status {
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    return runner->end_group(group);
  });
}

// ---- Timeline

ronde_status ronde_start_timeline(ronde_engine* engine, const char* path, size_t path_bytes, int32_t mark_cycles) {
  return guarded([&]() -> Status {
    if (path == nullptr) {
      return null_argument("path");
    }
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    return runner->start_timeline({path, path_bytes}, mark_cycles != 0);
  });
}

ronde_status ronde_stop_timeline(ronde_engine* engine) {
  return guarded([&]() -> Status {
    RONDE_ASSIGN_OR_RETURN(const auto runner, runner_of(engine));
    return runner->stop_timeline();
  });
}
