#include "oneccl/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include "base/environment.h"
#include "base/found_functions.h"

namespace ronde::oneccl {

namespace {

constexpr const char* kSet = "RONDE_ONECCL_LIBRARY";
constexpr const char* kFile = "libccl.so.2";
/// oneCCL's own defaults are for Intel's GPUs, ranks that Intel MPI's launcher has started, and programs that do not
/// wait.
constexpr std::pair<const char*, const char*> kDefaults[] = {{"CCL_PLUGIN", "ONECCL_LEGACY_CPU"},
                                                             {"CCL_ATL_TRANSPORT", "ofi"},
                                                             {"CCL_PROCESS_LAUNCHER", "none"},
                                                             {"CCL_WORKER_OFFLOAD", "0"},
                                                             {"CCL_LOG_LEVEL", "error"}};

std::string file_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : kFile;
}

void find_functions(FoundFunctions& in, Functions& out) {
  in.find(out.version, "onecclGetVersion");
  in.find(out.unique_id, "onecclGetUniqueId");
  in.find(out.init_rank, "onecclCommInitRank");
  in.find(out.destroy, "onecclCommDestroy");
  in.find(out.last_error, "onecclGetLastError");
  in.find(out.allreduce, "onecclAllReduce");
  in.find(out.reduce, "onecclReduce");
  in.find(out.broadcast, "onecclBroadcast");
  in.find(out.reduce_scatter, "onecclReduceScatter");
  in.find(out.allgather, "onecclAllGather");
  in.find(out.alltoall, "onecclAllToAll");
}

}  // namespace

Result<OneCclLibrary> OneCclLibrary::open() {
  for (const auto& [name, value] : kDefaults) {
    ::setenv(name, value, 0);
  }
  const std::optional<std::string> named = environment_text(kSet);
  void* const library = ::dlopen(named.value_or(kFile).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = ::dlerror();
    const std::string why = text != nullptr ? text : "it cannot be opened";
    return named ? Status::error(Code::invalid_argument, std::string(kSet) + " cannot be opened: " + why)
                 : Status::error(Code::not_implemented,
                                 "there is no oneCCL: install one (pip install oneccl) and add the folder of its "
                                 "libccl.so.2 to LD_LIBRARY_PATH (" +
                                     why + ")");
  }
  OneCclLibrary made;
  FoundFunctions found(library);
  find_functions(found, made.functions_);
  if (!found.has_all()) {
    return Status::error(Code::not_implemented, "oneCCL's library has no " + found.missing() +
                                                    ": backend oneccl needs oneCCL 2022.1 or newer");
  }
  int version = 0;
  made.functions_.version(&version);
  made.name_ = "oneCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + " in " +
               file_of(reinterpret_cast<const void*>(made.functions_.init_rank));
  return made;
}

Status OneCclLibrary::error(const std::string& what) const {
  const char* const text = functions_.last_error(nullptr);
  std::string line = text != nullptr ? text : "it does not say why";
  line.resize(std::min(line.find('\n'), line.size()));
  const bool lacks_plugin = line.find("plugin") != std::string::npos;
  return Status::error(Code::system_error,
                       what + " fails: " + line +
                           (lacks_plugin ? " Its folder must be in LD_LIBRARY_PATH before the program starts." : ""));
}

}  // namespace ronde::oneccl
