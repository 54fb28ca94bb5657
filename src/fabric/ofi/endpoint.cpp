#include "fabric/ofi/endpoint.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/units.hpp"
#include "wire/message.hpp"

namespace atoll::fabric {
namespace {

constexpr std::uint32_t kApi = FI_VERSION(1, 17);
constexpr std::uint64_t kOrder = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW | FI_ORDER_WAS;

/// What OfiFabric needs of a provider.
Info make_hints(const OfiChoice& choice) {
  Info hints(ofi_library().dupinfo(nullptr));
  if (hints == nullptr) throw Error("libfabric has no memory for its hints", Errc::kOutOfMemory);
  hints->caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->domain_attr->cq_data_size = 4;
  hints->tx_attr->msg_order = kOrder;
  hints->rx_attr->msg_order = kOrder;
  hints->tx_attr->inject_size = sizeof(wire::Message);
  if (!choice.provider.empty()) hints->fabric_attr->prov_name = ::strdup(provider_name(choice.provider).c_str());
  return hints;
}

std::string failed(const char* what, long error) {
  return fmt::format("{}: {}", what, ofi_library().strerror(int(-error)));
}

void check(const char* what, long result) {
  if (result != 0) throw Error(failed(what, result));
}

std::string names_in(const char* folder) {
  std::string names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names += (names.empty() ? "" : ", ") + entry.path().filename().string();
  }
  return names;
}

}  // namespace

std::string provider_name(std::string_view wanted) {
  if (wanted == "tcp" || wanted == "verbs") return fmt::format("{};ofi_rxm", wanted);
  return std::string(wanted);
}

Info find_provider(const OfiChoice& choice) {
  const Info hints = make_hints(choice);
  fi_info* found = nullptr;
  const char* node = choice.address.empty() ? nullptr : choice.address.c_str();
  if (ofi_library().getinfo(kApi, node, nullptr, node == nullptr ? 0 : FI_SOURCE, hints.get(), &found) != 0)
    return nullptr;
  return Info(found);
}

std::vector<std::string> usable_providers(const std::string& address) {
  std::vector<std::string> names;
  const Info found = find_provider({"", address});
  for (const fi_info* each = found.get(); each != nullptr; each = each->next) {
    const std::string name = each->fabric_attr->prov_name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string explain_missing(const OfiChoice& choice) {
  const std::string provider = provider_name(choice.provider);
  const std::string at = choice.address.empty() ? "" : fmt::format(" at address {}", choice.address);
  std::string text = fmt::format("libfabric offers no reliable datagrams over \"{}\"{}.", provider, at);
  if (choice.provider.starts_with("verbs")) {
    const std::string devices = names_in("/sys/class/infiniband");
    text += devices.empty()
                ? " There is no RDMA device (/sys/class/infiniband is empty): load the driver of the card, or make "
                  "a software device with `rdma link add rxe0 type rxe netdev eth0`."
                : fmt::format(
                      " RDMA devices: {}; is a port of them active (`rdma link`), does it have a GID "
                      "for an IP address (`ibv_devinfo -v`)?",
                      devices);
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      text += fmt::format(
          " Memory that may be locked: {}, which must hold all memory that the node brings (ulimit -l "
          "unlimited, or LimitMEMLOCK=infinity).",
          base::format_bytes(limit.rlim_cur));
    }
    text += " The package ibverbs-providers has the drivers' user part.";
  } else if (choice.provider == "tcp" && !choice.address.empty()) {
    text += " Does this host have that address (`ip address`)?";
  }
  return text + " `fi_info -l` (package libfabric-bin) lists the providers that libfabric has.";
}

Endpoint::Endpoint(const OfiChoice& choice) : info_(find_provider(choice)) {
  if (info_ == nullptr) throw Error(explain_missing(choice));
  fid_fabric* fabric = nullptr;
  check("libfabric cannot open its fabric", ofi_library().fabric(info_->fabric_attr, &fabric, nullptr));
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  check("libfabric cannot open its domain", ::fi_domain(fabric, info_.get(), &domain, nullptr));
  domain_.reset(domain);
  fi_cq_attr queue{};
  queue.size = info_->tx_attr->size + info_->rx_attr->size;
  queue.format = FI_CQ_FORMAT_DATA;
  queue.wait_obj = FI_WAIT_FD;
  fid_cq* cq = nullptr;
  check("libfabric gives no completion queue", ::fi_cq_open(domain, &queue, &cq, nullptr));
  cq_.reset(cq);
  fi_av_attr table{};
  table.type = FI_AV_UNSPEC;
  fid_av* av = nullptr;
  check("libfabric gives no address table", ::fi_av_open(domain, &table, &av, nullptr));
  av_.reset(av);
  fid_ep* ep = nullptr;
  check("libfabric gives no endpoint", ::fi_endpoint(domain, info_.get(), &ep, nullptr));
  ep_.reset(ep);
  check("libfabric cannot bind its address table", ::fi_ep_bind(ep, &av->fid, 0));
  check("libfabric cannot bind its queue", ::fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION));
  check("libfabric cannot bind its queue", ::fi_ep_bind(ep, &cq->fid, FI_RECV));
  check("libfabric cannot enable its endpoint", ::fi_enable(ep));
  check("libfabric's queue has nothing to wait on", ::fi_control(&cq->fid, FI_GETWAIT, &wait_fd_));
  description_ = fmt::format("{} on {}", info_->fabric_attr->prov_name, info_->domain_attr->name);
}

std::vector<std::byte> Endpoint::name() const {
  std::array<std::byte, 256> room;
  std::size_t bytes = room.size();
  check("libfabric does not say where its endpoint is", ::fi_getname(&ep_->fid, room.data(), &bytes));
  return {room.begin(), room.begin() + std::ptrdiff_t(bytes)};
}

Registered Endpoint::register_memory(std::span<std::byte> memory, std::uint64_t access, std::uint64_t wanted_key) {
  fid_mr* region = nullptr;
  const long result =
      ::fi_mr_reg(domain_.get(), memory.data(), memory.size(), access, 0, wanted_key, 0, &region, nullptr);
  if (result != 0) {
    rlimit limit{};
    (void)::getrlimit(RLIMIT_MEMLOCK, &limit);
    throw Error(fmt::format("{} of memory cannot be registered with {}: {}. Memory that may be locked: {} (ulimit -l)",
                            base::format_bytes(memory.size()), info_->fabric_attr->prov_name,
                            ofi_library().strerror(int(-result)),
                            limit.rlim_cur == RLIM_INFINITY ? "unlimited" : base::format_bytes(limit.rlim_cur)),
                Errc::kOutOfMemory);
  }
  return {Fid<fid_mr>(region)};
}

std::uint64_t Endpoint::remote_address(const std::byte* begin, const std::byte* at) const noexcept {
  const bool by_address = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  return by_address ? reinterpret_cast<std::uint64_t>(at) : std::uint64_t(at - begin);
}

fi_addr_t Endpoint::insert_peer(std::span<const std::byte> name) {
  fi_addr_t peer = FI_ADDR_UNSPEC;
  const int inserted = ::fi_av_insert(av_.get(), name.data(), 1, &peer, 0, nullptr);
  if (inserted != 1) throw Error(failed("libfabric does not take a peer's address", inserted < 0 ? inserted : 0));
  return peer;
}

void Endpoint::remove_peer(fi_addr_t peer) noexcept {
  (void)::fi_av_remove(av_.get(), &peer, 1, 0);
}

bool Endpoint::may_sleep() noexcept {
  fid* objects[] = {&cq_->fid};
  return ::fi_trywait(fabric_.get(), objects, 1) == 0;
}

}  // namespace atoll::fabric
