// A hash table in the manner of GAM's (PVLDB 2018, section 7.3): what Atoll's map is compared with.
#pragma once

#include <array>
#include <vector>

#include "bench/store.hpp"

namespace atoll::bench {

/// Buckets of ten 12-byte entries in the heap, a line each, spread over all nodes. Every get locks the bucket's line to
/// read, every put to write. A pair is in the memory of the node that put it last.
///
/// Thread-safety: as Store says; made by all nodes together.
class LineLocks final : public Store {
 public:
  LineLocks(Node& node, const StoreSize& size);

  bool get(std::string_view key, std::string& value) override;
  bool put(std::string_view key, std::string_view value) override;
  bool modify(std::string_view key, const Modify& function) override;

 private:
  static constexpr std::size_t kEntries = 10;
  struct [[gnu::packed]] Entry {
    std::uint64_t pair = 0;       // its address; 0: none
    std::uint32_t tag : 8 = 0;    // of the key's hash
    std::uint32_t size : 24 = 0;  // of the pair
  };
  static_assert(sizeof(Entry) == 12);
  struct Bucket {
    std::array<Entry, kEntries> entries{};
    std::uint64_t overflow = 0;  // address of another; 0: none
  };
  static_assert(sizeof(Bucket) == 128);
  struct Place {
    Entry entry;            // of the key; none when it is not there
    GlobalAddress address;  // of the entry, or of one that is free; of the last bucket when none is
    bool full = false;
  };

  [[nodiscard]] GlobalAddress bucket_of(std::uint64_t hash) const;
  [[nodiscard]] Place find(GlobalAddress bucket, std::uint8_t tag, std::string_view key,
                           std::vector<std::byte>& pair) const;
  void store(const Place& place, std::uint8_t tag, std::string_view key, std::string_view value);

  Node& node_;
  std::uint64_t per_node_;            // buckets
  std::vector<GlobalAddress> first_;  // of each node
};

}  // namespace atoll::bench
