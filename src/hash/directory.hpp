// Which bucket a hash belongs to, and where it is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "hash/layout.hpp"

namespace atoll::hash {

/// What this process knows of the buckets of a map.
///
/// Bucket n of level L splits into n and n + 2^L, both of level L + 1, whenever it is full: buckets need not split in
/// any order, and nothing else changes. So there is no directory that all must agree on: a bucket says by its level
/// whether it is the right one, and if not, which of those that were split off is nearer. What a process has seen it
/// remembers, and it never becomes wrong: buckets do not go away, blocks do not move.
///
/// Thread-safety: any thread, any time.
class Directory {
 public:
  /// Makes a map. Throws Error.
  Directory(Node& node, const HashMapOptions& options);
  /// One that is there. Throws Error.
  Directory(Node& node, GlobalAddress root);
  ~Directory();

  [[nodiscard]] GlobalAddress root_address() const noexcept { return root_address_; }
  [[nodiscard]] const Root& root() const noexcept { return root_; }
  /// Where a node counts its pairs.
  [[nodiscard]] global_ptr<std::int64_t> count_of(NodeId node) const noexcept;

  /// The bucket to look at first: one that is there, and was the right one when last heard of.
  [[nodiscard]] std::uint64_t guess(std::uint64_t hash) const noexcept;
  /// From a bucket that does not cover the hash any more: the one that was split off from it for such hashes.
  [[nodiscard]] std::uint64_t go_on(std::uint64_t number, std::uint64_t hash) noexcept;

  /// REQUIRES: the bucket is there.
  [[nodiscard]] Result<GlobalAddress> find(std::uint64_t number) noexcept;
  /// Makes room for the bucket if nobody has yet.
  [[nodiscard]] Result<GlobalAddress> make_room(std::uint64_t number) noexcept;

  /// Frees all blocks, tables and the root. REQUIRES: nobody uses the map any more.
  [[nodiscard]] Status destroy() noexcept;

 private:
  /// Of one doubling: the buckets that are there, and the addresses of blocks, as far as this process knows.
  struct Known {
    explicit Known(std::uint64_t buckets);
    struct Free {
      void operator()(void* memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<std::atomic<std::uint64_t>[], Free> blocks;
    std::unique_ptr<std::atomic<std::uint8_t>[], Free> is_there;
  };

  struct Place {
    unsigned doubling;    // index into known_ and Root::tables
    std::uint64_t index;  // of the bucket in it
  };
  [[nodiscard]] Place place_of(std::uint64_t number) const noexcept;
  [[nodiscard]] std::uint64_t buckets_of(unsigned doubling) const noexcept;
  [[nodiscard]] Known& known(unsigned doubling) noexcept;
  [[nodiscard]] Result<GlobalAddress> table_of(unsigned doubling, bool make) noexcept;
  [[nodiscard]] Result<GlobalAddress> make_table(unsigned doubling) noexcept;
  [[nodiscard]] Result<GlobalAddress> make_block(global_ptr<std::uint64_t> entry, std::uint64_t number) noexcept;
  void create(const HashMapOptions& options);

  Node& node_;
  GlobalAddress root_address_;
  Root root_;                                                       // but for its tables, which change
  std::atomic<unsigned> top_;                                       // the highest level that was heard of
  std::array<std::atomic<std::uint64_t>, kMaxLevel + 1> tables_{};  // addresses of block tables, as far as known
  std::array<std::atomic<Known*>, kMaxLevel + 1> known_{};
};

}  // namespace atoll::hash
