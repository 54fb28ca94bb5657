// A libfabric endpoint with what belongs to it, opened, closed, and explained when it cannot be had.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atoll/status.hpp"
#include "fabric/ofi/library.hpp"

namespace atoll::fabric {

/// Ends a libfabric object as its kind wants it.
struct FidClose {
  template <typename Object>
  void operator()(Object* object) const noexcept {
    ::fi_close(&object->fid);
  }
};
template <typename Object>
using Fid = std::unique_ptr<Object, FidClose>;

struct FreeInfo {
  void operator()(fi_info* info) const noexcept { ofi_library().freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/// Which way to the network is wanted.
struct OfiChoice {
  std::string provider;  // "tcp", "verbs", or as libfabric names it; empty: any
  std::string address;   // of this host, where the endpoint shall be; empty: any that the provider offers
};

/// "tcp" and "verbs" mean these with the layer that makes them reliable datagrams; other names are taken as they are.
[[nodiscard]] std::string provider_name(std::string_view wanted);
/// What libfabric offers for it. Null where it offers nothing that will do. Costs some milliseconds.
[[nodiscard]] Info find_provider(const OfiChoice& choice);
/// The names of all that would do, the best first. With an address: there.
[[nodiscard]] std::vector<std::string> usable_providers(const std::string& address);
/// Why there is nothing, and what to do about it: for people. Looks at devices, limits and providers.
[[nodiscard]] std::string explain_missing(const OfiChoice& choice);

/// Memory that the provider knows.
struct Registered {
  Fid<fid_mr> region;
  [[nodiscard]] void* descriptor() const noexcept { return region == nullptr ? nullptr : ::fi_mr_desc(region.get()); }
};

/// One reliable-datagram endpoint, its completion queue and its table of peers.
///
/// Thread-safety: libfabric's objects are used by several threads at once only as OfiFabric says.
/// Invariants:
///   1. Messages and writes to one peer are done in the order issued (asked of the provider when it is chosen).
///   2. Sends and writes complete into the queue only if they ask for it; receives always.
class Endpoint {
 public:
  /// Throws Error, with what was looked for and how to get it.
  explicit Endpoint(const OfiChoice& choice);

  [[nodiscard]] const fi_info& info() const noexcept { return *info_; }
  [[nodiscard]] fid_ep* ep() const noexcept { return ep_.get(); }
  [[nodiscard]] fid_cq* cq() const noexcept { return cq_.get(); }
  [[nodiscard]] std::vector<std::byte> name() const;
  /// Ends the endpoint itself: from here on the provider uses nobody's buffers.
  void stop() noexcept { ep_.reset(); }
  /// For people: provider, device and address.
  [[nodiscard]] const std::string& describe() const noexcept { return description_; }

  /// Must local buffers be registered too?
  [[nodiscard]] bool wants_local_registration() const noexcept {
    return (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
  }
  /// Registers memory. `wanted_key` counts where the provider lets us choose. Throws Error with the limits.
  [[nodiscard]] Registered register_memory(std::span<std::byte> memory, std::uint64_t access, std::uint64_t wanted_key);
  /// Where peers write to reach `at` in memory that was registered from `begin` on.
  [[nodiscard]] std::uint64_t remote_address(const std::byte* begin, const std::byte* at) const noexcept;

  /// The handle of a peer. Throws Error.
  [[nodiscard]] fi_addr_t insert_peer(std::span<const std::byte> name);
  void remove_peer(fi_addr_t peer) noexcept;

  /// What can be polled for when `may_sleep` said yes.
  [[nodiscard]] int wait_fd() const noexcept { return wait_fd_; }
  [[nodiscard]] bool may_sleep() noexcept;

 private:
  Info info_;
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_cq> cq_;
  Fid<fid_av> av_;
  Fid<fid_ep> ep_;  // last: it ends first
  int wait_fd_ = -1;
  std::string description_;
};

}  // namespace atoll::fabric
