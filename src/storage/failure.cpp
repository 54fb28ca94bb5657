#include "storage/failure.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>

#include "base/mutex.hpp"

namespace atoll::storage {
namespace {

constexpr std::size_t kMostTexts = 500;

class Texts {
 public:
  const char* keep(std::string text, const char* otherwise) ATOLL_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    if (const auto at = texts_.find(text); at != texts_.end()) return at->c_str();
    if (texts_.size() >= kMostTexts) return otherwise;
    return texts_.insert(std::move(text)).first->c_str();
  }

 private:
  base::Mutex mutex_;
  std::set<std::string> texts_ ATOLL_GUARDED_BY(mutex_);
};

Texts& texts() {
  static auto* const kept = new Texts;  // never destroyed: a Status may outlive everything
  return *kept;
}

}  // namespace

Status failure(const char* what, std::string_view where, int error) noexcept {
  const bool full = error == ENOSPC || error == EDQUOT;
  const char* const text = texts().keep(fmt::format("cannot {} {}: {}", what, where, std::strerror(error)), what);
  return {full ? Errc::kStorageFull : Errc::kStorage, text};
}

Status damage(std::string_view where, std::string_view what) noexcept {
  return {Errc::kStorage, texts().keep(fmt::format("{}: {}", where, what), "a file is damaged")};
}

}  // namespace atoll::storage
