#include "transport/ofi/fabric_objects.h"

#include <netinet/in.h>

#include <utility>

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>

#include "base/environment.h"
#include "base/random.h"
#include "ofi/kept_signals.h"
#include "ofi/providers.h"
#include "store/port_range.h"

namespace ronde::transport {

namespace {

/// A port is taken by somebody else.
bool is_taken(const Status& status) {
  return !status.is_ok() && status.message().ends_with("(" + std::to_string(FI_EADDRINUSE) + ")");
}

/// Puts the port where the provider, if it goes by addresses of IP, reads at which it is to listen.
void set_port(fi_info& info, std::uint16_t port) {
  if (info.addr_format == FI_SOCKADDR_IN && info.src_addr != nullptr) {
    static_cast<sockaddr_in*>(info.src_addr)->sin_port = htons(port);
  } else if (info.addr_format == FI_SOCKADDR_IN6 && info.src_addr != nullptr) {
    static_cast<sockaddr_in6*>(info.src_addr)->sin6_port = htons(port);
  }
}

bool has_ports(const fi_info& info) {
  return (info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6) && info.src_addr != nullptr;
}

}  // namespace

Result<std::unique_ptr<FabricObjects>> FabricObjects::open(const ofi::OfiLibrary& library,
                                                           const FabricOptions& options) {
  auto made = std::make_unique<FabricObjects>();
  made->library_ = library;
  RONDE_ASSIGN_OR_RETURN(made->info_, ofi::choose(library, options.provider, options.address));
  const ofi::KeptSignals kept;
  RONDE_RETURN_IF_ERROR(made->open_all(options).with_context("libfabric's provider " + made->provider()));
  return made;
}

FabricObjects::~FabricObjects() {
  if (info_ && (info_->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
    memory_.reset();  // it belongs to the endpoint
  }
  endpoint_.reset();
}

Status FabricObjects::open_all(const FabricOptions& options) {
  const auto failed = [&](const char* what, int rc) { return library_.error(what, rc); };
  fid_fabric* fabric = nullptr;
  if (const int rc = library_.functions().fabric(info_->fabric_attr, &fabric, nullptr)) {
    return failed("fi_fabric()", rc);
  }
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int rc = ::fi_domain(fabric, info_.get(), &domain, nullptr)) {
    return failed("fi_domain()", rc);
  }
  domain_.reset(domain);
  fi_av_attr attributes{};
  attributes.type = info_->domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : info_->domain_attr->av_type;
  fid_av* addresses = nullptr;
  if (const int rc = ::fi_av_open(domain, &attributes, &addresses, nullptr)) {
    return failed("fi_av_open()", rc);
  }
  addresses_.reset(addresses);
  RONDE_RETURN_IF_ERROR(open_queue(options));
  RONDE_RETURN_IF_ERROR(open_endpoint());
  address_.resize(256);
  std::size_t bytes = address_.size();
  if (const int rc = ::fi_getname(&endpoint_->fid, address_.data(), &bytes)) {
    return failed("fi_getname()", rc);
  }
  address_.resize(bytes);
  return {};
}

Status FabricObjects::open_queue(const FabricOptions& options) {
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_TAGGED;
  attributes.size = options.completions;
  attributes.wait_obj = options.may_wait ? FI_WAIT_FD : FI_WAIT_NONE;
  fid_cq* made = nullptr;
  int rc = ::fi_cq_open(domain_.get(), &attributes, &made, nullptr);
  if (rc != 0 && options.may_wait) {
    attributes.wait_obj = FI_WAIT_NONE;
    rc = ::fi_cq_open(domain_.get(), &attributes, &made, nullptr);
  }
  if (rc != 0) {
    return library_.error("fi_cq_open()", rc);
  }
  completions_.reset(made);
  if (attributes.wait_obj == FI_WAIT_FD && ::fi_control(&made->fid, FI_GETWAIT, &wait_fd_) != 0) {
    wait_fd_ = -1;
  }
  return {};
}

/// Where RONDE_PORT_RANGE says so at one of its ports, from a random one of them on.
Status FabricObjects::open_endpoint() {
  const std::optional<std::string> text = environment_text("RONDE_PORT_RANGE");
  if (!text || !has_ports(*info_)) {
    return open_endpoint_at(0);
  }
  RONDE_ASSIGN_OR_RETURN(const store::PortRange range, store::parse_port_range(*text));
  std::uint32_t begin = 0;
  RONDE_RETURN_IF_ERROR(fill_random(std::as_writable_bytes(std::span(&begin, 1))));
  Status opened;
  for (std::uint32_t tried = 0; tried < range.size(); ++tried) {
    opened = open_endpoint_at(static_cast<std::uint16_t>(range.first + (begin % range.size() + tried) % range.size()));
    if (!is_taken(opened)) {
      return opened;
    }
  }
  return opened.with_context("no port of RONDE_PORT_RANGE=" + *text + " is free");
}

Status FabricObjects::open_endpoint_at(std::uint16_t port) {
  set_port(*info_, port);
  fid_ep* made = nullptr;
  if (const int rc = ::fi_endpoint(domain_.get(), info_.get(), &made, nullptr)) {
    return library_.error("fi_endpoint()", rc);
  }
  OfFabric<fid_ep> endpoint(made);
  int rc = ::fi_ep_bind(made, &addresses_->fid, 0);
  rc = rc != 0 ? rc : ::fi_ep_bind(made, &completions_->fid, FI_TRANSMIT | FI_RECV);
  rc = rc != 0 ? rc : ::fi_enable(made);
  if (rc != 0) {
    return library_.error("fi_enable()", rc);
  }
  endpoint_ = std::move(endpoint);
  return {};
}

Result<fi_addr_t> FabricObjects::insert(std::span<const std::byte> address) {
  fi_addr_t made = FI_ADDR_UNSPEC;
  const int inserted = ::fi_av_insert(addresses_.get(), address.data(), 1, &made, 0, nullptr);
  if (inserted != 1) {
    return library_.error("fi_av_insert()", inserted < 0 ? inserted : -FI_EADDRNOTAVAIL);
  }
  return made;
}

Result<void*> FabricObjects::register_memory(std::span<std::byte> memory) {
  fid_mr* made = nullptr;
  ++registrations_;
  if (const int rc =
          ::fi_mr_reg(domain_.get(), memory.data(), memory.size(), FI_SEND | FI_RECV, 0, 1, 0, &made, nullptr)) {
    return library_.error("fi_mr_reg()", rc);
  }
  memory_.reset(made);
  if ((info_->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
    int rc = ::fi_mr_bind(made, &endpoint_->fid, 0);
    rc = rc != 0 ? rc : ::fi_mr_enable(made);
    if (rc != 0) {
      return library_.error("fi_mr_enable()", rc);
    }
  }
  return ::fi_mr_desc(made);
}

bool FabricObjects::may_sleep() const {
  fid* queues[] = {&completions_->fid};
  return wait_fd_ < 0 || ::fi_trywait(fabric_.get(), queues, 1) == FI_SUCCESS;
}

}  // namespace ronde::transport
