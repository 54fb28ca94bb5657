// A master that is none: whoever connects is sent what the input says, and then loses it.
#pragma once

#include <sys/socket.h>

#include <string>
#include <thread>

#include "control_script.hpp"

namespace atoll::fuzz {

/// Serves one connection, on a thread of its own; the destructor waits for its end.
class FakeMaster {
 public:
  explicit FakeMaster(Input script)
      : name_(cluster::make_socket_name()),
        listener_(cluster::listen_abstract(name_)),
        thread_([this, script] { serve(script); }) {}
  ~FakeMaster() { thread_.join(); }
  FakeMaster(const FakeMaster&) = delete;
  FakeMaster& operator=(const FakeMaster&) = delete;

  [[nodiscard]] const std::string& socket_name() const { return name_; }

 private:
  static constexpr int kMostSteps = 64;
  static constexpr int kPatience_ms = 5000;  // for who does not connect after all

  void serve(Input script) const {
    pollfd entry{listener_.get(), POLLIN, 0};
    if (::poll(&entry, 1, kPatience_ms) <= 0) return;
    const base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    for (int k = 0; k < kMostSteps && !script.empty(); ++k) play_step(script, socket.get(), true);
    // What the other side has sent is read, or its end would be an error instead of an end.
    (void)::shutdown(socket.get(), SHUT_WR);
    std::array<char, 4096> ignored;
    while (::recv(socket.get(), ignored.data(), ignored.size(), MSG_DONTWAIT) > 0) {
    }
  }

  const std::string name_;
  const base::Fd listener_;
  std::thread thread_;
};

}  // namespace atoll::fuzz
