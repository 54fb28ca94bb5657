// The cluster key: what everybody who may join over the network has, and nobody else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "atoll/status.hpp"

namespace atoll::cluster {

/// 32 secret bytes that never print themselves and are wiped when they are no longer needed.
///
/// Thread-safety: as a plain value.
/// Invariants:
///   1. No operator, formatter or message of ours shows the bytes; `reveal` alone does, for who makes a key file.
///   2. Every copy is wiped by its destructor.
class Key {
 public:
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kTextBytes = 2 * kBytes;  // hexadecimal digits
  using Bytes = std::array<std::uint8_t, kBytes>;

  explicit Key(const Bytes& bytes) noexcept : bytes_(bytes) {}
  ~Key();
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;

  /// A fresh one, from the system's source of randomness. Throws Error.
  [[nodiscard]] static Key generate();
  /// From 64 hexadecimal digits; white space around them does not matter. `where` is named in the Error, the text is
  /// not.
  [[nodiscard]] static Key parse(std::string_view text, std::string_view where);
  /// From a file that nobody but its owner may read or write. Throws Error, with how to mend it.
  [[nodiscard]] static Key read_file(const std::string& path);
  /// From the file that ATOLL_KEY_FILE names, else from ATOLL_KEY; none when neither is set. Throws Error.
  [[nodiscard]] static std::optional<Key> from_environment();

  /// Writes it to a new file for its owner alone. Throws Error; a file that is there already is left as it is.
  void write_new_file(const std::string& path) const;
  /// As `parse` takes it.
  [[nodiscard]] std::string reveal() const;
  [[nodiscard]] std::span<const std::uint8_t, kBytes> bytes() const noexcept { return bytes_; }

 private:
  Bytes bytes_;
};

/// Fresh, unguessable bytes. Throws Error when the system has none.
void fill_random(std::span<std::uint8_t> bytes);
/// So many fresh bytes, as hexadecimal digits.
[[nodiscard]] std::string random_hex(std::size_t bytes);
/// Whether two secrets are the same, in a time that does not tell where they differ.
[[nodiscard]] bool same_secret(std::string_view a, std::string_view b) noexcept;

}  // namespace atoll::cluster
