// MpiLibrary: the MPI that this process runs under, opened at run time. Nothing is compiled against one: its functions
// are found by name, its handles are words.
//
// Three binary interfaces are in the field. Handles are pointers in Open MPI's and in the standard one of MPI 5, and
// integers of 32 bits in MPICH's, which MPICH and Intel MPI share. On the processors that Ronde runs on an integer
// argument is the low half of the register that a pointer would be in, and what is stored through a pointer to one is
// the low half of a zeroed word. So one table of constants for each interface does, and one declaration of each
// function for all.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ronde::mpi {

/// A communicator, type, operation, request or handler of errors.
using Handle = void*;

/// By which a library's handles and constants are known.
enum class Abi {
  open_mpi,
  mpich,
  standard,  ///< of MPI 5
};

/// What is used of MPI. The functions return 0 for success.
struct Functions {
  int (*init_thread)(int* argc, char*** argv, int required, int* provided);
  int (*finalize)();
  int (*initialized)(int* flag);
  int (*finalized)(int* flag);
  int (*query_thread)(int* provided);
  int (*library_version)(char* text, int* bytes);
  int (*comm_size)(Handle comm, int* size);
  int (*comm_rank)(Handle comm, int* rank);
  int (*comm_dup)(Handle comm, Handle* made);
  int (*comm_set_errhandler)(Handle comm, Handle handler);
  int (*test)(Handle* request, int* flag, void* status);

  int (*iallreduce)(const void* from, void* to, int count, Handle type, Handle op, Handle comm, Handle* request);
  int (*ireduce)(const void* from, void* to, int count, Handle type, Handle op, int root, Handle comm, Handle* request);
  int (*ireduce_scatter)(const void* from, void* to, const int* counts, Handle type, Handle op, Handle comm,
                         Handle* request);
  int (*iscan)(const void* from, void* to, int count, Handle type, Handle op, Handle comm, Handle* request);
  int (*iexscan)(const void* from, void* to, int count, Handle type, Handle op, Handle comm, Handle* request);
  int (*ibcast)(void* data, int count, Handle type, int root, Handle comm, Handle* request);
  int (*iallgatherv)(const void* from, int count, Handle type, void* to, const int* counts, const int* places,
                     Handle to_type, Handle comm, Handle* request);
  int (*igatherv)(const void* from, int count, Handle type, void* to, const int* counts, const int* places,
                  Handle to_type, int root, Handle comm, Handle* request);
  int (*iscatterv)(const void* from, const int* counts, const int* places, Handle type, void* to, int count,
                   Handle to_type, int root, Handle comm, Handle* request);
  int (*ialltoallv)(const void* from, const int* counts, const int* places, Handle type, void* to, const int* to_counts,
                    const int* to_places, Handle to_type, Handle comm, Handle* request);
  int (*ibarrier)(Handle comm, Handle* request);
};

/// What the headers of MPI define.
struct Constants {
  Handle world, byte, float32, float64;
  Handle int8, uint8, int16, uint16, int32, uint32, int64, uint64;
  Handle sum, product, min, max, bit_and, bit_or, bit_xor;
  Handle null_request, errors_return;
  void* ignored_status;
  int thread_serialized, thread_multiple;
};

class MpiLibrary {
 public:
  /// The one that the process has loaded, or the program's launcher brings, or the loader finds; RONDE_MPI_LIBRARY
  /// names another. It stays open. NOT_IMPLEMENTED with what was tried if there is none, or it is of no known
  /// interface.
  static Result<MpiLibrary> open();
  /// The one in a file, a path or a name for the loader. INVALID_ARGUMENT if there is none, NOT_IMPLEMENTED if it
  /// cannot be used.
  static Result<MpiLibrary> open(const std::string& file);

  const Functions& functions() const { return functions_; }
  const Constants& constants() const { return constants_; }
  Abi abi() const { return abi_; }
  /// For people: version and file.
  const std::string& name() const { return name_; }

 private:
  MpiLibrary() = default;
  static Result<MpiLibrary> found_in(void* library);

  Functions functions_{};
  Constants constants_{};
  Abi abi_ = Abi::standard;
  std::string name_;
};

/// For people: "Open MPI's", ...
std::string_view name_of(Abi abi);

/// The files in which MPIs of any kind may be found here, the likeliest first: RONDE_MPI_LIBRARY alone if it is set,
/// else beside the launchers in PATH and where open() looks. Paths, and names for the loader.
std::vector<std::string> library_files();

/// Which interface a library has, of this file name and with what MPI_Get_library_version() says of it; `has_globals`:
/// it exports Open MPI's handles. NOT_IMPLEMENTED for none of the three.
Result<Abi> abi_of(const std::string& file, const std::string& version, bool has_globals);

}  // namespace ronde::mpi
