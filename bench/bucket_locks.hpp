// The key-value store of DArray's paper (ICPP 2023, section 5.2 and Figure 11) on Atoll's arrays: what Atoll's map is
// compared with.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "atoll/array.hpp"
#include "bench/store.hpp"

namespace atoll::bench {

/// Two arrays over all nodes: of entries, in buckets of 15 and a number of an overflow bucket, and of the pairs' bytes.
/// Every get holds the bucket's lock (of its first element) to read, every put to write. A value of the same size is
/// replaced in place.
///
/// Thread-safety: as Store says; made and destroyed by all nodes together.
class BucketLocks final : public Store {
 public:
  BucketLocks(Node& node, const StoreSize& size);

  bool get(std::string_view key, std::string& value) override;
  bool put(std::string_view key, std::string_view value) override;
  bool modify(std::string_view key, const Modify& function) override;

 private:
  static constexpr std::uint64_t kEntries = 15;
  static constexpr std::uint64_t kWords = kEntries + 1;
  using Bucket = std::array<std::uint64_t, kWords>;

  /// 8 bits of tag, 16 of size, 40 of offset; 0 is none.
  struct Entry {
    std::uint64_t bits = 0;
    Entry() = default;
    explicit Entry(std::uint64_t word) : bits(word) {}
    Entry(std::uint8_t tag, std::uint64_t size, std::uint64_t offset)
        : bits(std::uint64_t{tag} << 56 | size << 40 | offset) {}
    [[nodiscard]] std::uint8_t tag() const { return std::uint8_t(bits >> 56); }
    [[nodiscard]] std::uint64_t size() const { return bits >> 40 & 0xffff; }
    [[nodiscard]] std::uint64_t offset() const { return bits & ((std::uint64_t{1} << 40) - 1); }
  };
  /// Where a key was found, or where it would go.
  struct Place {
    Entry entry;                // of the key; none when it is not there
    std::uint64_t element = 0;  // that holds the entry, or is free for it
    bool full = false;          // no element is free: `element` is the overflow number of the last bucket
  };

  /// Bytes of the byte array by sizes, as Memcached's slabs; each node has those of its own part to give.
  ///
  /// Thread-safety: any thread of the node.
  class Slabs {
   public:
    Slabs(std::uint64_t begin, std::uint64_t end) : next_(begin), end_(end) {}
    [[nodiscard]] std::uint64_t take(std::uint64_t bytes);
    void give(std::uint64_t offset, std::uint64_t bytes);
    [[nodiscard]] static std::uint64_t rounded(std::uint64_t bytes);

   private:
    std::mutex mutex_;
    std::map<std::uint64_t, std::vector<std::uint64_t>> free_;
    std::uint64_t next_, end_;
  };

  static std::uint64_t buckets_per_node(Node& node, const StoreSize& size);
  /// The first element of a key's bucket.
  [[nodiscard]] std::uint64_t bucket_of(std::uint64_t hash) const;
  /// REQUIRES: the bucket is locked. `pair` is what the key has.
  [[nodiscard]] Place find(std::uint64_t first, std::uint8_t tag, std::string_view key,
                           std::vector<std::byte>& pair) const;
  /// REQUIRES: the bucket is locked to write.
  void store(const Place& place, std::uint8_t tag, std::string_view key, std::string_view value);
  [[nodiscard]] Entry write_pair(std::uint8_t tag, std::string_view key, std::string_view value);
  [[nodiscard]] std::uint64_t take_overflow();

  Node& node_;
  std::uint64_t main_;      // buckets that keys hash to, of a node
  std::uint64_t per_node_;  // with those that overflow
  Array<std::uint64_t> entries_;
  Array<std::byte> bytes_;
  Slabs slabs_;
  std::atomic<std::uint64_t> overflows_{0};
};

}  // namespace atoll::bench
