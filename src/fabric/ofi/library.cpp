#include "fabric/ofi/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "atoll/status.hpp"

namespace atoll::fabric {
namespace {

/// What each signal does, put back at the end. (InfiniPath's library lets SIGTERM end a process with code 1.)
class KeptSignals {
 public:
  KeptSignals() {
    for (int signal = 1; signal < kSignals; ++signal) {
      kept_[std::size_t(signal)] = ::sigaction(signal, nullptr, &actions_[std::size_t(signal)]) == 0;
    }
  }
  ~KeptSignals() {
    for (int signal = 1; signal < kSignals; ++signal) {
      if (kept_[std::size_t(signal)]) (void)::sigaction(signal, &actions_[std::size_t(signal)], nullptr);
    }
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr int kSignals = 32;  // those that a program gets by itself
  std::array<struct sigaction, kSignals> actions_{};
  std::array<bool, kSignals> kept_{};
};

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw Error(fmt::format("libfabric.so.1 has no {}: it must be 1.17 or newer", name));
}

OfiLibrary load() {
  const KeptSignals signals;
  // It looks at what there is once: only what is asked for, as a rule, unless the user says otherwise.
  (void)::setenv("FI_PROVIDER", "^psm,psm2,psm3,usnic,opx", 0);
  void* const library = ::dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(
        fmt::format("transports between hosts need libfabric 1.17 or newer (package libfabric1): {}", ::dlerror()));
  }
  OfiLibrary found;
  find(library, "fi_getinfo", found.getinfo);
  find(library, "fi_freeinfo", found.freeinfo);
  find(library, "fi_dupinfo", found.dupinfo);
  find(library, "fi_fabric", found.fabric);
  find(library, "fi_strerror", found.strerror);
  find(library, "fi_version", found.version);
  // Its first look loads the rest.
  fi_info* info = nullptr;
  if (found.getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, nullptr, &info) == 0) found.freeinfo(info);
  return found;
}

}  // namespace

const OfiLibrary& ofi_library() {
  static const OfiLibrary library = load();
  return library;
}

}  // namespace atoll::fabric
