// OneCclLibrary: Intel's oneCCL, opened at run time by the C interface that libccl.so.2 exports (oneCCL 2022.1 and
// newer), of which this declares what is used. Nothing is compiled against it.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/status.h"

namespace ronde::oneccl {

using Comm = void*;

/// By which ranks find each other; the first of them makes it.
struct UniqueId {
  std::array<char, 4096> bytes{};
};

/// As oneapi/ccl/v2/types.h numbers them.
enum class Type : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float32 = 7,
  float64 = 8,
};
enum class Op : int { sum = 0, product = 1, max = 2, min = 3 };

/// They return 0 for success. `stream` is null for memory of the host; then a collective has ended when its function
/// returns. Counts are of elements.
struct Functions {
  int (*version)(int* version);
  int (*unique_id)(UniqueId* id);
  int (*init_rank)(Comm* comm, std::size_t ranks, UniqueId id, int rank);
  int (*destroy)(Comm comm);
  const char* (*last_error)(Comm comm);

  int (*allreduce)(void* from, void* to, std::size_t count, Type type, Op op, Comm comm, void* stream);
  int (*reduce)(const void* from, void* to, std::size_t count, Type type, Op op, int root, Comm comm, void* stream);
  int (*broadcast)(const void* from, void* to, std::size_t count, Type type, int root, Comm comm, void* stream);
  int (*reduce_scatter)(const void* from, void* to, std::size_t count, Type type, Op op, Comm comm, void* stream);
  int (*allgather)(const void* from, void* to, std::size_t count, Type type, Comm comm, void* stream);
  int (*alltoall)(const void* from, void* to, std::size_t count, Type type, Comm comm, void* stream);
};

class OneCclLibrary {
 public:
  /// RONDE_ONECCL_LIBRARY, else what the loader finds as libccl.so.2. It stays open. The first time, what oneCCL reads
  /// from the environment as it is opened is set where the user has not: memory of the host, libfabric and no launcher
  /// in the place of MPI, work in the calling thread, and no warnings on the program's standard error. NOT_IMPLEMENTED
  /// with what to do if there is none, INVALID_ARGUMENT if the variable names none.
  static Result<OneCclLibrary> open();

  const Functions& functions() const { return functions_; }
  /// For people: version and file.
  const std::string& name() const { return name_; }
  /// What oneCCL says of an error.
  Status error(const std::string& what) const;

 private:
  OneCclLibrary() = default;

  Functions functions_{};
  std::string name_;
};

}  // namespace ronde::oneccl
