// A folder for the logs and files of clusters that are measured.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "atoll/status.hpp"

namespace atoll::bench {

/// A folder that is gone, with all in it, when this object is.
///
/// Thread-safety: none.
class Folder {
 public:
  /// In `where`, or in the directory for temporary files. Throws Error.
  explicit Folder(const std::string& where) {
    const auto base = where.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(where);
    path_ = (base / "atoll-bench-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) throw Error(fmt::format("cannot make {}", path_));
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.is_regular_file()) all.push_back(entry.path().string());
    }
    return all;
  }

 private:
  std::string path_;
};

}  // namespace atoll::bench
