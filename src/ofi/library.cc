#include "ofi/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "base/environment.h"
#include "ofi/kept_signals.h"

namespace ronde::ofi {

namespace {

constexpr const char* kFile = "libfabric.so.1";
/// Of the headers, and of the structures that the versions of symbols below speak of.
constexpr std::uint32_t kHeaders = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
constexpr const char* kSet = "RONDE_OFI_LIBRARY";

/// Functions of one library, each by name and version.
class VersionedFunctions {
 public:
  explicit VersionedFunctions(void* library) : library_(library) {}

  template <typename Function>
  void find(Function*& found, const char* name, const char* version) {
    found = reinterpret_cast<Function*>(::dlvsym(library_, name, version));
    if (found == nullptr && missing_.empty()) {
      missing_ = std::string(name) + " of " + version;
    }
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string file_with(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string text_of(std::uint32_t version) {
  return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
}

}  // namespace

std::string library_file() { return environment_text(kSet).value_or(kFile); }

Result<OfiLibrary> OfiLibrary::open() {
  Result<OfiLibrary> library = open(library_file());
  if (library) {
    return library;
  }
  const std::string advice = environment_text(kSet)
                                 ? std::string("RONDE_OFI_LIBRARY names no libfabric that can be used")
                                 : "there is no libfabric that can be used: install one (Debian: libfabric1), or set "
                                   "RONDE_OFI_LIBRARY to the path of a libfabric.so.1";
  return Status::error(Code::not_implemented, advice + " (" + library.status().message() + ")");
}

Result<OfiLibrary> OfiLibrary::open(const std::string& file) {
  const KeptSignals kept;
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = ::dlerror();
    const std::string why = text != nullptr ? text : "it cannot be opened";
    const bool is_missing = why.starts_with(file + ": cannot open shared object file: No such file");
    return Status::error(is_missing ? Code::invalid_argument : Code::not_implemented, why);
  }
  OfiLibrary made;
  VersionedFunctions found(library);
  found.find(made.functions_.version, "fi_version", "FABRIC_1.0");
  found.find(made.functions_.getinfo, "fi_getinfo", "FABRIC_1.3");
  found.find(made.functions_.freeinfo, "fi_freeinfo", "FABRIC_1.3");
  found.find(made.functions_.dupinfo, "fi_dupinfo", "FABRIC_1.3");
  found.find(made.functions_.fabric, "fi_fabric", "FABRIC_1.1");
  found.find(made.functions_.strerror, "fi_strerror", "FABRIC_1.0");
  if (!found.missing().empty()) {
    return Status::error(Code::not_implemented,
                         file + " has no " + found.missing() + ": it is no libfabric, or older than version 1.9");
  }
  made.file_ = file_with(reinterpret_cast<const void*>(made.functions_.version));
  return made;
}

std::string OfiLibrary::version() const { return text_of(functions_.version()); }

std::string OfiLibrary::name() const { return "libfabric " + version() + " in " + file_; }

Infos OfiLibrary::copy_of(const fi_info* info) const {
  return {functions_.dupinfo(info), [free = functions_.freeinfo](fi_info* made) {
            if (made != nullptr) {
              free(made);
            }
          }};
}

Result<Infos> OfiLibrary::find(const fi_info& wanted) const {
  const KeptSignals kept;
  fi_info* found = nullptr;
  // A library takes no version newer than its own.
  const int rc = functions_.getinfo(std::min(functions_.version(), kHeaders), nullptr, nullptr, 0, &wanted, &found);
  if (rc == -FI_ENODATA) {
    return Infos();
  }
  if (rc != 0) {
    return error("fi_getinfo()", rc);
  }
  return Infos(found, functions_.freeinfo);
}

Status OfiLibrary::error(std::string_view what, std::int64_t code) const {
  const int number = static_cast<int>(std::abs(code));
  const char* const text = functions_.strerror(number);
  return Status::error(Code::system_error, std::string(what) + ": " + (text != nullptr ? text : "unknown error") +
                                               " (" + std::to_string(number) + ")");
}

}  // namespace ronde::ofi
