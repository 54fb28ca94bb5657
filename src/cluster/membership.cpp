#include "cluster/membership.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "cluster/control.hpp"
#include "cluster/environment.hpp"
#include "cluster/master_membership.hpp"
#include "cluster/roots.hpp"

namespace atoll::cluster {

Status membership_status(Errc code) noexcept {
  switch (code) {
    case Errc::kOk: return {};
    case Errc::kNotFound: return {code, "no node has published that name"};
    case Errc::kDeadline: return {code, "no node published that name in time"};
    case Errc::kAlreadyExists: return {code, "the name stands for another address"};
    case Errc::kOutOfMemory: return {code, "the master keeps as many names or lookups as it can"};
    case Errc::kInvalidArgument: return {code, "the master does not take that name"};
    case Errc::kNullAddress: return {code, "a null address cannot be published"};
    case Errc::kClusterDown: return {code, "the master is lost"};
    case Errc::kFenced: return {code, "this node was declared out"};
    case Errc::kBadAddress:
    case Errc::kNotAllocated:
    case Errc::kCacheFull:
    case Errc::kNotHeld:
    case Errc::kWouldDeadlock:
    case Errc::kRefused:
    case Errc::kNodeDied:
    case Errc::kInDoubt:
    case Errc::kStorage:
    case Errc::kStorageFull: return {code};
  }
  return {Errc::kClusterDown, "the master answers with an unknown code"};
}

namespace {

using namespace std::chrono_literals;

/// A cluster of one: no master, names in a local table.
///
/// Thread-safety: every method may be called from any thread.
class LocalMembership final : public Membership {
 public:
  std::vector<Peer> exchange(const Offer& offer, Events /*events*/) override {
    std::vector<Peer> peers(1);
    describe_self(peers[0], memory::Segment::open(offer.segment));
    return peers;
  }
  [[nodiscard]] NodeId id() const noexcept override { return 0; }
  [[nodiscard]] NodeId count() const noexcept override { return 1; }
  [[nodiscard]] std::uint32_t epoch() const noexcept override { return 1; }

  Status publish(std::string_view name, GlobalAddress address) override {
    const base::MutexLock lock(mutex_);
    const Status status = roots_.publish(name, address);
    if (status.ok()) published_.notify_all();
    return status;
  }

  Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout) override {
    if (const Status status = check_root_name(name); !status.ok()) return status;
    timeout = bounded_timeout(timeout);
    const auto deadline = Clock::now() + timeout;
    const base::MutexLock lock(mutex_);
    while (true) {
      if (const auto address = roots_.find(name)) return *address;
      if (timeout == 0ms) return membership_status(Errc::kNotFound);
      if (Clock::now() >= deadline) return membership_status(Errc::kDeadline);
      (void)published_.wait_until(mutex_, deadline);
    }
  }

  void leave() noexcept override {}

 private:
  base::Mutex mutex_;
  std::condition_variable_any published_;
  RootTable roots_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Membership> Membership::connect(const Options& options) {
  base::init_logging();
  const char* master = std::getenv("ATOLL_MASTER");
  if (master == nullptr) return std::make_unique<LocalMembership>();
  if (*master == '\0') {
    throw Error("ATOLL_MASTER=\"\": must be the master's address or the name of its socket, or not be set");
  }
  const Place place = place_from([](const char* name) { return std::getenv(name); });
  spdlog::info("node {} of {}, as {} say", place.node, place.nodes, place.source);
  return std::make_unique<MasterMembership>(options, find_master(master), place.node, place.nodes);
}

}  // namespace atoll::cluster
