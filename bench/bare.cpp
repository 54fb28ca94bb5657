#include "bench/bare.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/futex.hpp"
#include "bench/harness.hpp"

namespace atoll::bench {
namespace {

constexpr std::chrono::nanoseconds kSpin{1000};  // as the defaults of atoll::Options
constexpr std::chrono::microseconds kYield{100};
constexpr std::uint64_t kSleepUs = 50'000;
constexpr std::size_t kLines = (16u << 20) / kBareBytes;

/// Where the line of round trip `trip` begins: all lines in turn, but never two neighbours.
std::size_t place(std::uint32_t trip, BareLines lines) noexcept {
  constexpr std::size_t kStride = 12'345;  // odd, hence prime to the number of lines
  return lines == BareLines::kHot ? 0 : trip * kStride % kLines * kBareBytes;
}

/// One direction: a word that counts messages, and whether somebody sleeps for it.
struct alignas(64) Direction {
  std::atomic<std::uint32_t> count{0};
  std::atomic<std::uint32_t> sleeping{0};

  void send() noexcept {
    count.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping.load(std::memory_order_seq_cst) != 0) base::futex_wake(count, 1, base::FutexScope::kShared);
  }
  void wait_past(std::uint32_t seen) noexcept {
    const Clock::time_point start = Clock::now();
    while (count.load(std::memory_order_acquire) == seen) {
      const auto waited = Clock::now() - start;
      if (waited < kSpin) {
        __builtin_ia32_pause();
      } else if (waited < kYield) {
        ::sched_yield();
      } else {
        sleeping.store(1, std::memory_order_seq_cst);
        base::futex_wait(count, seen, kSleepUs, base::FutexScope::kShared);
        sleeping.store(0, std::memory_order_seq_cst);
      }
    }
  }
};

}  // namespace

struct Bare::Shared {
  Direction request;
  Direction reply;
  alignas(4096) std::array<std::byte, kLines * kBareBytes> lines;
};

base::Fd Bare::make_file() {
  base::Fd file(::memfd_create("atoll-bench-bare", 0));  // not closed on exec: the nodes shall have it
  if (!file.valid() || ::ftruncate(file.get(), sizeof(Shared)) != 0) {
    throw Error(fmt::format("cannot make shared memory: {}", std::strerror(errno)));
  }
  return file;
}

Bare::Bare(int file) {
  // The file is all zeros, which is what a Shared begins with.
  void* at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) throw Error(fmt::format("cannot map shared memory: {}", std::strerror(errno)));
  shared_ = static_cast<Shared*>(at);
}

Bare::~Bare() {
  (void)::munmap(shared_, sizeof(Shared));
}

double Bare::ping(std::uint32_t count, BareLines lines) {
  std::vector<double> times(count);
  for (double& time : times) {
    const std::uint32_t seen = shared_->reply.count.load(std::memory_order_relaxed);
    const Clock::time_point start = Clock::now();
    shared_->request.send();
    shared_->reply.wait_past(seen);
    std::uint64_t word = 0;
    std::memcpy(&word, shared_->lines.data() + place(seen, lines), sizeof(word));
    keep(word);
    time = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  }
  return median(std::move(times));
}

void Bare::serve(std::uint32_t count, BareLines lines) {
  if (served_.empty()) {
    served_.assign(kLines * kBareBytes, std::byte{1});
    shared_->lines.fill(std::byte{0});  // touched before the time starts, as a cache in use is
  }
  // Who serves counts the replies; the request that belongs to the next one may be here already.
  for (std::uint32_t trip = shared_->reply.count.load(), end = trip + count; trip != end; ++trip) {
    shared_->request.wait_past(trip);
    const std::size_t at = place(trip, lines);
    std::memcpy(shared_->lines.data() + at, served_.data() + at, kBareBytes);
    shared_->reply.send();
  }
}

}  // namespace atoll::bench
