// For tests over libfabric: which providers they run over, and whether this machine has them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ofi/library.h"
#include "ofi/providers.h"
#include "transport/ofi/ofi.h"

namespace ronde::transport {

/// By TCP in both ways that libfabric has, and in the first as over a network card that has no descriptor to wait on.
inline std::vector<OfiOptions> tested_fabrics() { return {{"net", true}, {"tcp", true}, {"net", false}}; }

inline std::string name_of(const OfiOptions& fabric) {
  return fabric.provider + (fabric.may_wait ? "" : "_without_descriptor");
}
inline void PrintTo(const OfiOptions& fabric, std::ostream* stream) { *stream << name_of(fabric); }

/// Empty, or why nothing can be tested over it here. Newer libraries have "net" as "tcp".
inline std::string missing_here(const OfiOptions& fabric) {
#if defined(__SANITIZE_THREAD__)
  return "ThreadSanitizer does not see what libfabric does between " + name_of(fabric) + "'s threads";
#endif
#if defined(__SANITIZE_ADDRESS__)
  if (fabric.provider == "net") {
    return "libfabric's net loses memory of its own with each endpoint, which AddressSanitizer reports";
  }
#endif
  const Result<ofi::OfiLibrary> library = ofi::OfiLibrary::open();
  if (!library) {
    return "no libfabric here: " + library.status().message();
  }
  const Result<std::vector<std::string>> names = ofi::provider_names(library.value());
  if (!names) {
    return names.status().message();
  }
  const bool is_there =
      std::ranges::any_of(names.value(), [&](const std::string& name) { return ofi::is_meant(fabric.provider, name); });
  return is_there ? "" : library.value().name() + " has no provider " + fabric.provider;
}

}  // namespace ronde::transport
