// What the fuzz targets have in common. A target is one source file that defines LLVMFuzzerTestOneInput; the preset
// `fuzz` links it with libFuzzer, every other one with replay.cpp, which runs the corpus. See docs/fuzzing.md.
#pragma once

#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "atoll/detail/namespace.hpp"

// libFuzzer's names; not ours to choose.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed);

/// What must hold whatever the input says. A finding.
#define ATOLL_FUZZ_CHECK(condition)                                                                 \
  do {                                                                                              \
    if (!(condition)) [[unlikely]] {                                                                \
      std::fprintf(stderr, "%s:%d: a finding: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                                 \
    }                                                                                               \
  } while (false)

namespace atoll::fuzz {

/// An input, taken from the front. What is not there reads as zero: every input means something.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}

  [[nodiscard]] bool empty() const { return left_ == 0; }
  [[nodiscard]] std::size_t left() const { return left_; }
  template <typename T>
  [[nodiscard]] T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::string_view bytes = text(sizeof(T));
    std::memcpy(static_cast<void*>(&value), bytes.data(), bytes.size());
    return value;
  }
  [[nodiscard]] std::uint8_t byte() { return take<std::uint8_t>(); }
  /// A number below `limit`, from one byte.
  [[nodiscard]] std::uint32_t below(std::uint32_t limit) { return byte() % limit; }
  /// Up to `most` bytes.
  [[nodiscard]] std::string_view text(std::size_t most) {
    const std::size_t bytes = most < left_ ? most : left_;
    const std::string_view result(reinterpret_cast<const char*>(at_), bytes);
    at_ += bytes;
    left_ -= bytes;
    return result;
  }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

/// Log lines are made, for that is code too, and thrown away. To be called before anything else of ours.
inline void quiet_logging() {
  static const bool done = [] {
    if (std::getenv("ATOLL_LOG") != nullptr) return true;  // somebody wants to see why a peer is cut off
    spdlog::set_default_logger(spdlog::create<spdlog::sinks::null_sink_mt>("atoll"));
    return true;
  }();
  (void)done;
}

}  // namespace atoll::fuzz
