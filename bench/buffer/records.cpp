#include "bench/buffer/records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>

namespace atoll::bench {
namespace {

std::uint64_t word_at(std::span<const std::byte> page, std::uint64_t offset) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, page.data() + offset, sizeof(word));
  return word;
}

/// How many of `count` ascending keys, `stride` bytes from each other, are at most `key`.
std::uint64_t upper_bound(std::span<const std::byte> page, std::uint64_t count, std::uint64_t stride,
                          std::uint64_t key) noexcept {
  std::uint64_t low = 0, high = count;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    if (word_at(page, middle * stride) <= key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

RecordFile::RecordFile(std::uint64_t leaves) : leaves_(leaves), pages_(leaves) {
  std::uint64_t below = leaves;
  do {
    below = (below + kPerNode - 1) / kPerNode;
    levels_.push_back(below);
    pages_ += below;
  } while (below > 1);
}

RecordFile::Value RecordFile::value_of(std::uint64_t key) noexcept {
  Value value;
  for (std::size_t at = 0; at < value.size(); at += sizeof(key)) {
    std::memcpy(value.data() + at, &key, std::min(sizeof(key), value.size() - at));
  }
  return value;
}

void RecordFile::make(const std::string& path) const {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  std::array<char, kPageBytes> page;
  const auto put = [&out, &page] { out.write(page.data(), std::streamsize(page.size())); };
  for (std::uint64_t leaf = 0; leaf < leaves_; ++leaf) {
    page.fill('\xff');  // keys that are not there are larger than all
    for (std::uint64_t i = 0; i < kPerLeaf; ++i) {
      const std::uint64_t key = key_of(leaf * kPerLeaf + i);
      const Value value = value_of(key);
      std::memcpy(page.data() + i * kRecordBytes, &key, sizeof(key));
      std::memcpy(page.data() + i * kRecordBytes + sizeof(key), value.data(), value.size());
    }
    put();
  }
  std::uint64_t first = 0, below = leaves_, span = kPerLeaf;  // of the level below: its pages, records under each
  for (const std::uint64_t nodes : levels_) {
    for (std::uint64_t node = 0; node < nodes; ++node) {
      page.fill('\xff');
      for (std::uint64_t i = 0; i < kPerNode && node * kPerNode + i < below; ++i) {
        const std::uint64_t child = node * kPerNode + i;
        const Entry entry{key_of(child * span), first + child};
        std::memcpy(page.data() + i * sizeof(entry), &entry, sizeof(entry));
      }
      put();
    }
    first += below;
    below = nodes;
    span *= kPerNode;
  }
  out.close();
  if (!out) throw Error(fmt::format("cannot write {}", path));
  drop_page_cache(path);
}

bool RecordFile::search_leaf(std::span<const std::byte> page, std::uint64_t key, Value& into) {
  const std::uint64_t after = upper_bound(page, kPerLeaf, kRecordBytes, key);
  if (after == 0 || word_at(page, (after - 1) * kRecordBytes) != key) return false;
  std::memcpy(into.data(), page.data() + (after - 1) * kRecordBytes + sizeof(key), into.size());
  return true;
}

std::uint64_t RecordFile::search_node(std::span<const std::byte> page, std::uint64_t key) {
  const std::uint64_t after = upper_bound(page, kPerNode, sizeof(Entry), key);
  return word_at(page, (after == 0 ? 0 : after - 1) * sizeof(Entry) + sizeof(key));
}

bool RecordFile::get(BufferPool& pool, std::uint64_t key, Value& into) const {
  const std::uint64_t record = key / 2;
  if (record >= records()) return false;
  bool found = false;
  const auto look = [&](std::span<const std::byte> page) {
    const std::uint64_t at = record % kPerLeaf * kRecordBytes;
    found = word_at(page, at) == key;
    std::memcpy(into.data(), page.data() + at + sizeof(key), into.size());
  };
  pool.read({0, record / kPerLeaf}, look).or_throw();
  return found;
}

bool RecordFile::find(BufferPool& pool, std::uint64_t key, Value& into) const {
  std::uint64_t page = pages_ - 1;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    std::uint64_t child = 0;
    const auto look = [&](std::span<const std::byte> node) { child = search_node(node, key); };
    pool.read({0, page}, look).or_throw();
    if (child >= page) throw Error(fmt::format("page {} leads to page {}", page, child));
    page = child;
  }
  bool found = false;
  const auto look = [&](std::span<const std::byte> leaf) { found = search_leaf(leaf, key, into); };
  pool.read({0, page}, look).or_throw();
  return found;
}

}  // namespace atoll::bench
