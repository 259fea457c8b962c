// FabricObjects: what libfabric gives a process that sends and receives over one provider: fabric, domain, table of
// addresses, queue of completions and endpoint.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "base/status.h"
#include "ofi/library.h"

namespace ronde::transport {

template <typename Object>
struct CloseOfFabric {
  void operator()(Object* object) const { ::fi_close(&object->fid); }
};
/// Closed when it goes.
template <typename Object>
using OfFabric = std::unique_ptr<Object, CloseOfFabric<Object>>;

struct FabricOptions {
  std::string provider;         ///< its name; empty: the best (ofi/providers.h)
  std::string address;          ///< at which other hosts reach this process, as numbers
  std::size_t completions = 0;  ///< that may wait to be looked at
  bool may_wait = true;         ///< false: as a provider that has no descriptor to wait on
};

/// One thread at a time. What others post must have gone or be given up before this goes.
class FabricObjects {
 public:
  /// NOT_IMPLEMENTED if there is no such provider, SYSTEM_ERROR if libfabric fails.
  static Result<std::unique_ptr<FabricObjects>> open(const ofi::OfiLibrary& library, const FabricOptions& options);
  FabricObjects() = default;
  ~FabricObjects();
  FabricObjects(const FabricObjects&) = delete;
  FabricObjects& operator=(const FabricObjects&) = delete;

  const fi_info& info() const { return *info_; }
  const ofi::OfiLibrary& library() const { return library_; }
  std::string provider() const { return info_->fabric_attr->prov_name; }
  fid_ep* endpoint() const { return endpoint_.get(); }
  fid_cq* completions() const { return completions_.get(); }

  /// Of this endpoint, as the provider writes it.
  const std::vector<std::byte>& address() const { return address_; }
  /// Another's, to be sent to by what is returned.
  Result<fi_addr_t> insert(std::span<const std::byte> address);

  /// All that is ever handed to the provider to be sent from or received into. Called once: returns what to name it by
  /// in each operation.
  Result<void*> register_memory(std::span<std::byte> memory);
  int registrations() const { return registrations_; }

  /// Readable when there are completions; -1 if the provider has no such. Owned by this.
  int wait_fd() const { return wait_fd_; }
  /// Before a sleep on wait_fd(): false if completions, or work towards them, are there already.
  bool may_sleep() const;

 private:
  Status open_all(const FabricOptions& options);
  Status open_queue(const FabricOptions& options);
  Status open_endpoint();
  Status open_endpoint_at(std::uint16_t port);

  ofi::OfiLibrary library_;
  ofi::Infos info_;
  OfFabric<fid_fabric> fabric_;
  OfFabric<fid_domain> domain_;
  OfFabric<fid_av> addresses_;
  OfFabric<fid_cq> completions_;
  OfFabric<fid_mr> memory_;
  OfFabric<fid_ep> endpoint_;
  std::vector<std::byte> address_;
  int wait_fd_ = -1;
  int registrations_ = 0;
};

}  // namespace ronde::transport
