// OfiLibrary: the system's libfabric (OFI, OpenFabrics Interfaces), opened at run time. Ronde is compiled with its
// public headers of version 1.17 (third_party/libfabric), and linked with nothing of it.
//
// What libfabric hands out are tables of functions, which newer versions only make longer. The few functions that it
// exports are versioned symbols, and the newest of a name may speak of a newer structure than the headers here: so each
// is asked for by the version that fits the headers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rdma/fabric.h>

#include "base/status.h"

namespace ronde::ofi {

/// What is used of libfabric's exported functions; the rest are entries of what these give.
struct Functions {
  std::uint32_t (*version)();
  int (*getinfo)(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
                 const fi_info* hints, fi_info** found);
  void (*freeinfo)(fi_info* info);
  fi_info* (*dupinfo)(const fi_info* info);
  int (*fabric)(fi_fabric_attr* attributes, fid_fabric** made, void* context);
  const char* (*strerror)(int error);
};

/// A chain of descriptions of what providers offer; freed by the library that has made it.
using Infos = std::shared_ptr<fi_info>;

class OfiLibrary {
 public:
  /// RONDE_OFI_LIBRARY, else the one that the process has loaded or the loader finds. It stays open. NOT_IMPLEMENTED
  /// with why and what to do if there is none, or it is too old.
  static Result<OfiLibrary> open();
  /// The one in a file, a path or a name for the loader. INVALID_ARGUMENT if there is none, NOT_IMPLEMENTED if it
  /// cannot be used.
  static Result<OfiLibrary> open(const std::string& file);

  const Functions& functions() const { return functions_; }
  /// As "1.17".
  std::string version() const;
  /// For people: version and file.
  std::string name() const;

  /// An empty description to be filled, or a copy of one; of that alone, not of what follows it.
  Infos copy_of(const fi_info* info = nullptr) const;
  /// What all providers offer of that kind; null if none does. SYSTEM_ERROR if libfabric fails.
  Result<Infos> find(const fi_info& wanted) const;
  /// "what: libfabric's sentence (number)", of a function that has returned this.
  Status error(std::string_view what, std::int64_t code) const;

 private:
  Functions functions_{};
  std::string file_;
};

/// The file that open() would take, for people and for the doctor.
std::string library_file();

}  // namespace ronde::ofi
