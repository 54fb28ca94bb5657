// How a node is woken that sleeps on more than a futex: a datagram socket, named in no file system.
#pragma once

#include <string>

#include "base/fd.hpp"

namespace atoll::fabric {

/// Where this node listens. `name` is unguessable and dies with the socket. Throws Error.
struct Bell {
  Bell();
  std::string name;
  base::Fd socket;
  /// Takes out what was rung.
  void silence() const noexcept;
};

/// A way to ring a peer's bell; invalid when nobody listens there. Throws Error.
[[nodiscard]] base::Fd reach_bell(const std::string& name);
/// Never blocks: a bell that is full of rings rings already. False when nobody listens any more.
bool ring_bell(int bell) noexcept;

inline constexpr std::size_t kMaxBellNameBytes = 64;

}  // namespace atoll::fabric
