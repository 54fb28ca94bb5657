// libfabric, loaded when it is first needed.
//
// Not linked: programs that stay on one host need not have it, and one of the libraries that Debian's brings along puts
// its own handlers on SIGTERM, SIGINT and others while it is loaded. Loading it ourselves lets us put them back.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <rdma/fabric.h>

namespace atoll::fabric {

/// What libfabric exports; everything else goes through the objects that it gives.
struct OfiLibrary {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  decltype(&::fi_version) version = nullptr;
};

/// Thread-safety: may be called from any thread. Throws Error where there is no libfabric. It is never unloaded.
[[nodiscard]] const OfiLibrary& ofi_library();

}  // namespace atoll::fabric
