// Registered memory that messages and lines pass through on their way out and in.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "atoll/address.hpp"
#include "fabric/ofi/endpoint.hpp"

namespace atoll::fabric {

/// What an operation of libfabric is about. Its context is the operation's, and must be its first member.
struct Tracked {
  fi_context2 context{};
  bool outgoing = false;
};

class TxPool;

/// On its way to a peer until the provider needs it no more.
struct TxBuffer : Tracked {
  TxPool* pool = nullptr;
  std::byte* data = nullptr;
  void* descriptor = nullptr;
  std::uint32_t room = 0;
  NodeId peer = 0;
  bool in_flight = false;     // the provider has it
  bool of_last_life = false;  // sent to a process of the peer that is gone, since when the peer has come back
  TxBuffer* next = nullptr;   // of the same peer, issued after this one; or the next that is free
};

/// Waits for a frame, or holds one.
struct RxBuffer : Tracked {
  std::byte* data = nullptr;
  void* descriptor = nullptr;
  std::uint32_t bytes = 0;  // received
};

struct UnmapPages {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const noexcept;
};

/// Page-aligned memory, registered if the provider wants that.
class RegisteredPages {
 public:
  RegisteredPages(Endpoint& endpoint, std::size_t bytes, std::uint64_t access);
  [[nodiscard]] std::byte* data() const noexcept { return memory_.get(); }
  [[nodiscard]] void* descriptor() const noexcept { return registered_.descriptor(); }

 private:
  std::unique_ptr<std::byte, UnmapPages> memory_;
  Registered registered_;  // after the memory: it ends first
};

/// Buffers of one size; of none, for bytes that stand elsewhere. As many as are given at first will do, as a rule: more
/// are made only when a peer does not take what is sent to it for a while. The protocol bounds how many that can be.
///
/// Thread-safety: none; the engine lock.
class TxPool {
 public:
  TxPool(Endpoint& endpoint, std::uint32_t buffer_bytes, std::uint32_t first_count);
  [[nodiscard]] std::uint32_t buffer_bytes() const noexcept { return buffer_bytes_; }
  /// Null when there is no memory for more.
  [[nodiscard]] TxBuffer* take(NodeId peer) noexcept;
  static void give_back(TxBuffer& buffer) noexcept;
  /// How many there are, free or not.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  void grow(std::uint32_t count);

  Endpoint& endpoint_;
  std::uint32_t buffer_bytes_;
  TxBuffer* free_ = nullptr;
  std::size_t count_ = 0;
  std::vector<RegisteredPages> pages_;
  std::vector<std::unique_ptr<TxBuffer[]>> buffers_;
};

}  // namespace atoll::fabric
