// Part of <ronde/ronde.hpp>: joining and leaving a job, and this process's place in it.
#pragma once

#include <ronde/ronde.h>
#include <ronde/error.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace ronde {
inline namespace v0 {

/// Where this process stands in the job. Left alone, everything is taken from the environment that `ronde run` sets.
struct InitOptions {
  int rank = -1, size = -1;
  int local_rank = -1, local_size = -1;
  int cross_rank = -1, cross_size = -1;
  std::string store = {};     ///< "unix:/path"; empty: RONDE_STORE
  std::string key = {};       ///< the job's key, 64 hex digits; empty: RONDE_KEY
  double init_timeout_s = 0;  ///< how long to wait for the other ranks; 0: RONDE_INIT_TIMEOUT_S, else 60
  double timeout_s = 0;       ///< limit of requests without their own; 0: RONDE_TIMEOUT_S, else 1800; < 0: none
};

namespace detail {

inline ronde_options to_c(const InitOptions& from) {
  // A later library may answer to an older header of the same major version, never to a newer one.
  const std::uint32_t library = ronde_abi_version();
  if (library / 1000 != RONDE_ABI_VERSION / 1000 || library < RONDE_ABI_VERSION) {
    throw Error(Code::version_mismatch, "this program was compiled for version " + std::to_string(RONDE_ABI_VERSION) +
                                            " of Ronde's interface, libronde.so has " + std::to_string(library));
  }
  ronde_options to{};
  to.struct_size = sizeof(to);
  to.rank = from.rank;
  to.size = from.size;
  to.local_rank = from.local_rank;
  to.local_size = from.local_size;
  to.cross_rank = from.cross_rank;
  to.cross_size = from.cross_size;
  to.store = from.store.empty() ? nullptr : from.store.data();
  to.store_bytes = from.store.size();
  to.key = from.key.empty() ? nullptr : from.key.data();
  to.key_bytes = from.key.size();
  to.init_timeout_s = from.init_timeout_s;
  to.timeout_s = from.timeout_s;
  return to;
}

}  // namespace detail

/// Starts the process's shared engine. Collective: returns when all ranks have come, or throws Code::timed_out with a
/// sentence that names the missing. Does nothing if it has been started.
inline void init(const InitOptions& options = {}) {
  const ronde_options c_options = detail::to_c(options);
  detail::check(ronde_init(&c_options));
}

/// Leaves the job. Collective with a limit of 10 s; the engine is gone afterwards even when this throws. init() may
/// follow. Does nothing if there is no shared engine.
inline void shutdown() { detail::check(ronde_shutdown()); }

/// Between init() and shutdown(); false in a forked child.
inline bool is_initialized() noexcept { return ronde_is_initialized() != 0; }

/// init() and shutdown() as a scope. Where the shared engine was running before, it is left running.
class Session {
 public:
  explicit Session(const InitOptions& options = {}) : owns_(!is_initialized()) { init(options); }
  /// Drops the error of a failing shutdown; call ronde::shutdown() before to see it.
  ~Session() {
    if (owns_) {
      ronde_shutdown();
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  bool owns_;
};

/// An engine of the caller's own beside the shared one; requests name it in their options. Move-only.
class Engine {
 public:
  /// Collective, as init().
  explicit Engine(const InitOptions& options) {
    const ronde_options c_options = detail::to_c(options);
    ronde_engine* engine = nullptr;
    detail::check(ronde_engine_create(&c_options, &engine));
    handle_.reset(engine);
  }
  /// Of the C interface, owned by this object.
  ronde_engine* handle() const noexcept { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(ronde_engine* engine) const noexcept { ronde_engine_destroy(engine); }
  };
  std::unique_ptr<ronde_engine, Destroy> handle_;
};

struct Topology {
  int rank, size;              ///< of the job
  int local_rank, local_size;  ///< of this host
  int cross_rank, cross_size;  ///< among the hosts that have this local rank
  std::uint64_t epoch;         ///< how often this process has initialised; 1 the first time
};

/// Throws Code::not_initialized before init(). `engine` is the shared one if null, here and everywhere.
inline Topology topology(const Engine* engine = nullptr) {
  ronde_topology t{};
  t.struct_size = sizeof(t);
  detail::check(ronde_get_topology(engine ? engine->handle() : nullptr, &t));
  return {t.rank, t.size, t.local_rank, t.local_size, t.cross_rank, t.cross_size, t.epoch};
}
inline int rank(const Engine* engine = nullptr) { return topology(engine).rank; }
inline int size(const Engine* engine = nullptr) { return topology(engine).size; }

}  // namespace v0
}  // namespace ronde
