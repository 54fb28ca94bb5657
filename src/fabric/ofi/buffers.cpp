#include "fabric/ofi/buffers.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "base/units.hpp"

namespace atoll::fabric {

void UnmapPages::operator()(std::byte* memory) const noexcept {
  ::munmap(memory, bytes);
}

RegisteredPages::RegisteredPages(Endpoint& endpoint, std::size_t bytes, std::uint64_t access) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) {
    throw Error(fmt::format("no memory for {} of buffers: {}", base::format_bytes(bytes), std::strerror(errno)),
                Errc::kOutOfMemory);
  }
  memory_ = {static_cast<std::byte*>(at), UnmapPages{bytes}};
  if (endpoint.wants_local_registration()) registered_ = endpoint.register_memory({memory_.get(), bytes}, access, 0);
}

TxPool::TxPool(Endpoint& endpoint, std::uint32_t buffer_bytes, std::uint32_t first_count)
    : endpoint_(endpoint), buffer_bytes_(buffer_bytes) {
  grow(first_count);
}

void TxPool::grow(std::uint32_t count) {
  if (buffer_bytes_ > 0) pages_.emplace_back(endpoint_, std::size_t(count) * buffer_bytes_, FI_SEND | FI_WRITE);
  buffers_.push_back(std::make_unique<TxBuffer[]>(count));
  for (std::uint32_t i = 0; i < count; ++i) {
    TxBuffer& buffer = buffers_.back()[i];
    buffer.outgoing = true;
    buffer.pool = this;
    buffer.room = buffer_bytes_;
    if (buffer_bytes_ > 0) {
      buffer.data = pages_.back().data() + std::size_t(i) * buffer_bytes_;
      buffer.descriptor = pages_.back().descriptor();
    }
    give_back(buffer);
  }
  count_ += count;
}

TxBuffer* TxPool::take(NodeId peer) noexcept {
  if (free_ == nullptr) {
    try {
      grow(std::uint32_t(std::max<std::size_t>(count_ / 2, 1)));
    } catch (const std::exception& error) {
      spdlog::error("no more buffers for what node {} does not take: {}", peer, error.what());
      return nullptr;
    }
    spdlog::debug("{} buffers of {} wait to be sent; node {} is slow", count_, base::format_bytes(buffer_bytes_), peer);
  }
  TxBuffer& buffer = *free_;
  free_ = buffer.next;
  buffer.next = nullptr;
  buffer.peer = peer;
  buffer.of_last_life = false;
  return &buffer;
}

void TxPool::give_back(TxBuffer& buffer) noexcept {
  buffer.next = buffer.pool->free_;
  buffer.pool->free_ = &buffer;
}

}  // namespace atoll::fabric
