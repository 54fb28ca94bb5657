// Page stores in tests: memory for pages, a temporary folder, and a driver that waits.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "storage/page_store.hpp"

namespace atoll::test {

inline const bool kLoggingIsQuiet = (base::init_logging(), true);  // each repair is said otherwise

/// A folder that is gone at the end.
class PageFolder {
 public:
  PageFolder() : path_(testing::TempDir() + "atoll-pages-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~PageFolder() { std::filesystem::remove_all(path_); }
  PageFolder(const PageFolder&) = delete;
  PageFolder& operator=(const PageFolder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Memory that begins at a multiple of 4096.
class PageMemory {
 public:
  explicit PageMemory(std::size_t bytes, int fill = 0)
      : bytes_(bytes), at_(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)), std::free) {
    std::memset(at_.get(), fill, bytes);
  }
  [[nodiscard]] std::span<std::byte> span() const { return {at_.get(), bytes_}; }
  [[nodiscard]] std::span<std::byte> span(std::size_t offset, std::size_t bytes) const {
    return span().subspan(offset, bytes);
  }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte, void (*)(void*)> at_;
};

/// A page that says which one it is and what was written to it: each of its words does.
inline void stamp(std::span<std::byte> page, std::uint32_t number, std::uint32_t version) {
  const std::uint64_t word = std::uint64_t(number) << 32 | version;
  for (std::size_t at = 0; at + sizeof(word) <= page.size(); at += sizeof(word)) {
    std::memcpy(page.data() + at, &word, sizeof(word));
  }
}

inline constexpr std::uint32_t kTorn = ~0u;

/// The version of a page; 0 for one of zeros; kTorn when it is not whole or another one's.
inline std::uint32_t version_of(std::span<const std::byte> page, std::uint32_t number) {
  std::uint64_t first = 0;
  std::memcpy(&first, page.data(), sizeof(first));
  for (std::size_t at = 0; at + sizeof(first) <= page.size(); at += sizeof(first)) {
    if (std::memcmp(page.data() + at, &first, sizeof(first)) != 0) return kTorn;
  }
  if (first == 0) return 0;
  return first >> 32 == number ? std::uint32_t(first) : kTorn;
}

/// Waits for what it has asked for.
class PageDriver {
 public:
  /// `idle` is called while nothing is done, for a store without a wake_fd().
  explicit PageDriver(storage::PageStore& store, std::function<void()> idle = {})
      : store_(store), idle_(std::move(idle)) {}

  [[nodiscard]] std::uint64_t write(storage::FileNumber file, std::uint64_t offset, std::span<const std::byte> bytes) {
    store_.write(file, {{offset, bytes}}, ++tag_);
    return tag_;
  }
  [[nodiscard]] std::uint64_t read(storage::FileNumber file, std::uint64_t offset, std::span<std::byte> into) {
    store_.read(file, offset, into, ++tag_);
    return tag_;
  }
  [[nodiscard]] std::uint64_t sync(storage::FileNumber file) {
    store_.sync(file, ++tag_);
    return tag_;
  }
  /// Fails the test when it does not come.
  [[nodiscard]] Status wait(std::uint64_t tag) {
    store_.flush();
    for (int quiet = 0; !ended_.contains(tag); quiet = collect() ? 0 : quiet + 1) {
      if (quiet > 1000) {
        ADD_FAILURE() << "tag " << tag << " does not end";
        return {Errc::kDeadline};
      }
    }
    const Status status = ended_.at(tag);
    ended_.erase(tag);
    return status;
  }
  [[nodiscard]] bool has_ended(std::uint64_t tag) const { return ended_.contains(tag); }
  /// What can be had now, or after a moment. True: something.
  bool collect() {
    if (idle_) {
      idle_();
    } else {
      pollfd fd{store_.wake_fd(), POLLIN, 0};
      (void)::poll(&fd, 1, 20);
      store_.calm();
    }
    std::array<storage::PageDone, 7> done;
    const std::size_t count = store_.reap(done);
    for (std::size_t k = 0; k < count; ++k) {
      EXPECT_TRUE(ended_.emplace(done[k].tag, done[k].status).second) << "tag " << done[k].tag << " ended twice";
    }
    return count > 0;
  }

 private:
  storage::PageStore& store_;
  std::function<void()> idle_;
  std::uint64_t tag_ = 0;
  std::map<std::uint64_t, Status> ended_;
};

}  // namespace atoll::test
