// What YCSB runs on: Atoll's map, and what it is compared with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "atoll/node.hpp"

namespace atoll::bench {

/// Keys and values. What fails throws Error.
///
/// Thread-safety: every method may be called from any thread of any node at any time.
class Store {
 public:
  virtual ~Store() = default;

  /// Whether the key is there; `value` is what it has then.
  virtual bool get(std::string_view key, std::string& value) = 0;
  /// True when the key is new.
  virtual bool put(std::string_view key, std::string_view value) = 0;
  /// Changes the value as one step; false when the key is not there.
  using Modify = std::function<void(std::string& value)>;
  virtual bool modify(std::string_view key, const Modify& function) = 0;
  using Found = std::function<void(std::size_t index, std::optional<std::string_view> value)>;
  virtual void get_many(std::span<const std::string_view> keys, const Found& found);
  /// How many pairs there are, if it knows.
  virtual std::optional<std::uint64_t> pairs() { return {}; }
  /// The only copy is this process's: the node that uses it loads all of it.
  [[nodiscard]] virtual bool is_private() const { return false; }
};

enum class StoreKind : std::uint8_t {
  kAtoll,        // atoll::HashMap
  kBucketLocks,  // DArray's: bucket_locks.hpp
  kLineLocks,    // GAM's: line_locks.hpp
  kStd,          // std::unordered_map behind a std::shared_mutex, in this process alone
};
[[nodiscard]] const char* name_of(StoreKind kind);

/// What a store must have room for. What has a fixed size is made for it; Atoll's map takes no notice.
struct StoreSize {
  std::uint64_t pairs = 0;
  std::uint64_t pair_bytes = 0;  // of one
};

/// All nodes together. Throws Error.
[[nodiscard]] std::unique_ptr<Store> make_store(StoreKind kind, Node& node, const StoreSize& size);
/// What the stores that are compared with hash by: quick, and the same on all nodes.
[[nodiscard]] std::uint64_t hash_key(std::string_view key) noexcept;

}  // namespace atoll::bench
