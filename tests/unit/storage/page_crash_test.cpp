// A seeded search: writes, syncs and failures on the simulated disk, a crash at some point, and what must be there
// then.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "storage/faulty_page_store.hpp"
#include "support/page_store.hpp"
#include "support/seed.hpp"

namespace atoll::storage {
namespace {

using test::PageMemory;
using test::stamp;
using test::version_of;

constexpr std::uint32_t kPages = 24;
constexpr std::uint64_t kEveryN = 4;  // one of so many rounds has no failures

/// What is known of one page.
struct Known {
  std::set<std::uint32_t> versions{0};  // that were written, and may be there after a crash
  std::uint32_t newest = 0;
  std::uint32_t done = 0;     // the least after a crash of the process
  std::uint32_t durable = 0;  // the least after a crash of the machine
  bool is_certain = true;     // the last write of it ended well: then it reads as `newest`
  bool is_under_way = false;
};

class Search {
 public:
  explicit Search(std::uint64_t seed)
      : random_(seed),
        page_bytes_(4096u << random_.below(3)),
        store_(
            random_.next(), [this] { return now_; }, 1 + std::uint32_t(random_.below(20))),
        pages_(kPages) {
    for (std::uint32_t k = 0; k < kPages; ++k) memory_.emplace_back(page_bytes_);
    open();
    store_.resize(file_, length()).or_throw();
    settle();
  }

  void run(int steps) {
    begin_life();
    for (int k = 0; k < steps && !testing::Test::HasFatalFailure(); ++k) {
      const std::uint64_t what = random_.below(1000);
      if (what < 250) {
        write();
      } else if (what < 300) {
        if (has_syncs_) sync();
      } else if (what < 400) {
        read();
      } else if (what < 990) {
        go_on();
      } else if (what < 993) {
        cut_off();
      } else {
        crash();
      }
    }
    crash();
  }

 private:
  struct Asked {
    std::vector<std::uint32_t> pages;   // of a write
    std::vector<std::uint32_t> covers;  // of a sync: what was done of each page
    std::unique_ptr<PageMemory> seen;   // of a read, of one page
    std::uint32_t version = 0;          // what it must see
  };

  [[nodiscard]] std::uint64_t length() const { return std::uint64_t(kPages) * page_bytes_ - 1000; }
  /// The last page is cut off.
  [[nodiscard]] std::span<const std::byte> seen_part(std::span<const std::byte> page, std::uint32_t number) const {
    return number + 1 == kPages ? page.first(page_bytes_ - 1000) : page;
  }

  void begin_life() {
    const bool fails = random_.below(kEveryN) != 0;
    store_.set_faults({.failure = fails ? 0.03 : 0,
                       .short_transfer = fails ? 0.1 : 0,
                       .least_nanos = 10,
                       .most_nanos = 10 + std::int64_t(random_.below(1000))});
  }

  void write() {
    Asked asked;
    std::vector<PageImage> images;
    for (std::uint64_t k = 1 + random_.below(6); k > 0; --k) {
      const auto number = std::uint32_t(random_.below(kPages));
      Known& page = pages_[number];
      if (page.is_under_way) continue;
      page.is_under_way = true;
      page.is_certain = false;
      page.versions.insert(++page.newest);
      stamp(memory_[number].span(), number, page.newest);
      images.push_back({std::uint64_t(number) * page_bytes_, memory_[number].span()});
      asked.pages.push_back(number);
    }
    store_.write(file_, std::move(images), ++tag_);
    store_.flush();
    asked_.emplace(tag_, std::move(asked));
  }

  void sync() {
    Asked asked;
    for (const Known& page : pages_) asked.covers.push_back(page.done);
    store_.sync(file_, ++tag_);
    store_.flush();
    asked_.emplace(tag_, std::move(asked));
  }

  void read() {
    const auto number = std::uint32_t(random_.below(kPages));
    if (!pages_[number].is_certain || pages_[number].is_under_way) return;
    Asked asked;
    asked.pages = {number};
    asked.seen = std::make_unique<PageMemory>(page_bytes_, 0xee);
    asked.version = pages_[number].newest;
    store_.read(file_, std::uint64_t(number) * page_bytes_, asked.seen->span(), ++tag_);
    store_.flush();
    asked_.emplace(tag_, std::move(asked));
  }

  void go_on() {
    if (store_.next_due() == FaultyPageStore::kNever) return;
    now_ = std::max(now_, store_.next_due());
    PageDone done[5];
    const std::size_t count = store_.reap(done);
    for (std::size_t k = 0; k < count; ++k) ended(done[k].tag, done[k].status);
  }

  void ended(std::uint64_t tag, const Status& status) {
    const auto at = asked_.find(tag);
    ASSERT_NE(at, asked_.end()) << "nothing under way has tag " << tag;
    const Asked asked = std::move(at->second);
    asked_.erase(at);
    if (asked.seen != nullptr) {
      const std::uint32_t number = asked.pages[0];
      // Nobody says what a read sees of a write that began after it.
      if (!status.ok() || pages_[number].newest != asked.version || !pages_[number].is_certain) return;
      ASSERT_EQ(version_of(seen_part(asked.seen->span(), number), number), asked.version) << "page " << number;
      return;
    }
    for (std::size_t k = 0; k < asked.covers.size() && status.ok(); ++k) {
      pages_[k].durable = std::max(pages_[k].durable, asked.covers[k]);
    }
    for (const std::uint32_t number : asked.pages) {
      Known& page = pages_[number];
      page.is_under_way = false;
      page.is_certain = status.ok();
      if (status.ok()) page.done = page.newest;
    }
  }

  /// All that is under way has ended, and a sync that ended well covers it.
  void settle() {
    while (store_.under_way() > 0) go_on();
    for (int tries = 0; tries < 1000; ++tries) {
      bool is_ok = false;
      store_.sync(file_, ++tag_);
      while (store_.under_way() > 0) {
        if (store_.next_due() != FaultyPageStore::kNever) now_ = std::max(now_, store_.next_due());
        PageDone done[1];
        if (store_.reap(done) > 0) is_ok = done[0].status.ok();
      }
      if (is_ok) return;
    }
    FAIL() << "no sync ends well";
  }

  /// What was cut off must not come back.
  void cut_off() {
    settle();
    const auto kept = std::uint32_t(random_.below(kPages));
    ASSERT_TRUE(store_.resize(file_, std::uint64_t(kept) * page_bytes_).ok());
    ASSERT_TRUE(store_.resize(file_, length()).ok());
    settle();
    for (std::uint32_t k = 0; k < kPages; ++k) {
      if (k >= kept) {
        pages_[k].versions = {0};
        pages_[k].done = pages_[k].durable = 0;
      }
      pages_[k].is_certain = pages_[k].is_certain && k < kept;
    }
  }

  void open() {
    const auto file = store_.open("f", {.create = true, .page_bytes = page_bytes_});
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    file_ = *file;
  }

  void crash() {
    const bool power = random_.below(2) == 0;
    store_.crash(power);
    asked_.clear();
    store_.set_faults({});
    // Again and again while it is opened: what was repaired and what was not is the same to the next one.
    while (random_.below(2) == 0) {
      store_.disk().fail_from(1 + random_.below(30));
      (void)store_.open("f", {.create = true, .page_bytes = page_bytes_});
      store_.crash(power);
    }
    open();
    ASSERT_EQ(store_.bytes(file_), length());
    PageMemory seen(page_bytes_);
    for (std::uint32_t number = 0; number < kPages; ++number) {
      store_.read(file_, std::uint64_t(number) * page_bytes_, seen.span(), ++tag_);
      PageDone done[1];
      while (store_.reap(done) == 0) now_ = std::max(now_, store_.next_due());
      ASSERT_TRUE(done[0].status.ok());
      check(number, version_of(seen_part(seen.span(), number), number), power);
    }
    begin_life();
  }

  void check(std::uint32_t number, std::uint32_t version, bool power) {
    Known& page = pages_[number];
    ASSERT_NE(version, test::kTorn) << "page " << number;
    ASSERT_TRUE(page.versions.contains(version)) << "page " << number << " is of version " << version;
    const std::uint32_t least = power ? page.durable : page.done;
    ASSERT_GE(version, least) << "page " << number << (power ? " was synced" : " was written");
    const std::uint32_t newest = page.newest;
    page = {};
    page.versions = {version};
    page.newest = newest;  // no version comes twice
    page.done = page.durable = version;
    page.is_certain = version == newest;
  }

  base::Random random_;
  const std::uint32_t page_bytes_;
  const bool has_syncs_ = random_.below(2) == 0;  // else only those that the store makes for itself
  std::int64_t now_ = 0;
  FaultyPageStore store_;
  std::vector<Known> pages_;
  std::vector<PageMemory> memory_;
  std::map<std::uint64_t, Asked> asked_;
  FileNumber file_ = 0;
  std::uint64_t tag_ = 0;
};

TEST(PageCrash, PagesAreWholeAndWhatWasSyncedIsThere) {
  const std::uint64_t seed = test::fresh_seed();
  const bool is_one = std::getenv("ATOLL_TEST_SEED") != nullptr;
  for (int round = 0; round < (is_one ? 1 : test::scaled(120)); ++round) {
    SCOPED_TRACE(test::repeat_with(seed + std::uint64_t(round)));
    Search search(seed + std::uint64_t(round));
    search.run(1000);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace atoll::storage
