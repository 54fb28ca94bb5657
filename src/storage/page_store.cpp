#include "storage/page_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"
#include "storage/async_io.hpp"
#include "storage/failure.hpp"
#include "storage/io_runner.hpp"
#include "storage/page_file.hpp"

namespace atoll::storage {
namespace {

/// Handles that are closed where opening goes no further.
class OpenHandles {
 public:
  explicit OpenHandles(AsyncIo& io) : io_(io) {}
  ~OpenHandles() {
    for (const int handle : handles_) io_.close(handle);
  }
  OpenHandles(const OpenHandles&) = delete;
  OpenHandles& operator=(const OpenHandles&) = delete;

  [[nodiscard]] int open(const std::string& path, const IoOpen& how) {
    const int handle = io_.open(path, how);
    if (handle >= 0) handles_.push_back(handle);
    return handle;
  }
  void keep() { handles_.clear(); }

 private:
  AsyncIo& io_;
  std::vector<int> handles_;
};

/// Thread-safety: see PageStore.
class Pages final : public PageStore {
 public:
  explicit Pages(std::shared_ptr<AsyncIo> io)
      : io_(std::move(io)), runner_(*io_), host_{*io_, runner_, [this](std::uint64_t tag, Status status) {
                                                   done_.push_back({tag, status});
                                                 }} {}

  ~Pages() override { io_->end(); }  // the disk has memory of the files and of the caller until then

  [[nodiscard]] Result<FileNumber> open(const std::string& path, const PageFileOptions& options) override;
  [[nodiscard]] Status close(FileNumber file) override;
  [[nodiscard]] std::uint64_t bytes(FileNumber file) const override { return at(file).bytes(); }
  [[nodiscard]] Status resize(FileNumber file, std::uint64_t bytes) override { return at(file).resize(bytes); }
  [[nodiscard]] Status unlink(const std::string& path) override;

  void read(FileNumber file, std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag) override {
    ++under_way_;
    at(file).read(offset, into, tag);
    wake_if_done();
  }
  void write(FileNumber file, std::vector<PageImage> images, std::uint64_t tag) override {
    ++under_way_;
    at(file).write(std::move(images), tag);
    wake_if_done();
  }
  void sync(FileNumber file, std::uint64_t tag) override {
    ++under_way_;
    at(file).sync(tag);
  }
  void flush() override { runner_.flush(); }
  std::size_t reap(std::span<PageDone> into) override;
  [[nodiscard]] std::uint32_t under_way() const override { return under_way_; }
  [[nodiscard]] int wake_fd() const override { return io_->wake_fd(); }
  void calm() override { io_->calm(); }

 private:
  [[nodiscard]] PageFile& at(FileNumber file) const {
    ATOLL_CHECK(file < files_.size() && files_[file] != nullptr);
    return *files_[file];
  }
  void wake_if_done() {
    if (!done_.empty()) io_->wake();
  }
  [[nodiscard]] Status open_file(OpenHandles& handles, const std::string& path, const PageFileOptions& options,
                                 FileHandles& file);
  [[nodiscard]] Status create_file(OpenHandles& handles, const std::string& path, const PageFileOptions& options,
                                   int& handle);
  [[nodiscard]] Status repair(const std::string& path, const PageFileOptions& options, FileHandles file);
  [[nodiscard]] Status open_companion(OpenHandles& handles, const std::string& path, const PageFileOptions& options,
                                      FileHandles& companion);
  /// Opens around the page cache too, if it can.
  void add_direct(OpenHandles& handles, const std::string& path, const PageFileOptions& options, FileHandles& file);
  [[nodiscard]] Status remove_durably(const std::string& path);

  std::shared_ptr<AsyncIo> io_;
  IoRunner runner_;
  PageFileHost host_;
  std::vector<std::unique_ptr<PageFile>> files_;
  std::vector<std::unique_ptr<PageFile>> closed_;  // with loose ends
  std::deque<PageDone> done_;
  std::uint32_t under_way_ = 0;
  bool said_indirect_ = false;
};

std::size_t Pages::reap(std::span<PageDone> into) {
  runner_.reap();
  runner_.flush();
  std::erase_if(closed_, [](const auto& file) { return !file->has_loose_ends(); });
  const std::size_t count = std::min(into.size(), done_.size());
  std::copy_n(done_.begin(), count, into.begin());
  done_.erase(done_.begin(), done_.begin() + std::ptrdiff_t(count));
  under_way_ -= std::uint32_t(count);
  wake_if_done();
  return count;
}

// ---- names ----

Status Pages::remove_durably(const std::string& path) {
  int error = -io_->remove(path);
  if (error == ENOENT) return {};
  if (error == 0) error = -io_->sync_folder(path);
  return error == 0 ? Status() : failure("remove", path, error);
}

Status Pages::unlink(const std::string& path) {
  // The companion first, durably: its copies must not be put into another file of this name.
  if (const Status status = remove_durably(path + kCompanionSuffix); !status.ok()) return status;
  int error = -io_->remove(path);
  if (error == ENOENT) return {Errc::kNotFound, failure("remove", path, error).what()};
  if (error == 0) error = -io_->sync_folder(path);
  return error == 0 ? Status() : failure("remove", path, error);
}

// ---- opening ----

Status Pages::create_file(OpenHandles& handles, const std::string& path, const PageFileOptions& options, int& handle) {
  if (const Status status = remove_durably(path + kCompanionSuffix); !status.ok()) return status;
  handle = handles.open(path, {.create = true, .exclusive = options.exclusive});
  if (handle < 0) return {};
  const int error = -io_->sync_folder(path);
  return error == 0 ? Status() : failure("make", path, error);
}

Status Pages::open_file(OpenHandles& handles, const std::string& path, const PageFileOptions& options,
                        FileHandles& file) {
  file.plain = handles.open(path, {.read_only = options.read_only});
  if (file.plain >= 0 && options.create && options.exclusive) file.plain = -EEXIST;
  if (file.plain == -ENOENT && options.create) {
    if (const Status status = create_file(handles, path, options, file.plain); !status.ok()) return status;
  }
  if (file.plain < 0) {
    const int error = -file.plain;
    const Status status = failure(options.create ? "open or make" : "open", path, error);
    if (error == ENOENT) return {Errc::kNotFound, status.what()};
    if (error == EEXIST) return {Errc::kAlreadyExists, status.what()};
    return status;
  }
  if (const std::int64_t bytes = io_->length(file.plain); bytes < 0) {
    if (bytes == -ENOTSUP) return damage(path, "it is no regular file, and only such have pages");
    return failure("open", path, int(-bytes));
  }
  file.direct = file.plain;
  if (!options.whole || options.read_only) return {};
  const bool is_ours = std::any_of(files_.begin(), files_.end(), [&path](const auto& one) {
    return one != nullptr && one->path() == path && one->is_whole();
  });
  const int error = is_ours ? EWOULDBLOCK : -io_->lock(file.plain);
  if (error == EWOULDBLOCK) {
    return {Errc::kAlreadyExists, damage(path, "it is open already: close it first, or open it read-only").what()};
  }
  return error == 0 ? Status() : failure("lock", path, error);
}

void Pages::add_direct(OpenHandles& handles, const std::string& path, const PageFileOptions& options,
                       FileHandles& file) {
  file.direct = file.plain;
  if (!options.direct) return;
  const int direct = handles.open(path, {.read_only = options.read_only, .direct = true});
  if (direct >= 0) {
    file.direct = direct;
  } else if (!std::exchange(said_indirect_, true)) {
    spdlog::warn("{} goes through the system's page cache, for its file system cannot do without: {}", path,
                 std::strerror(-direct));
  }
}

/// What a crash has left in the companion.
Status Pages::repair(const std::string& path, const PageFileOptions& options, FileHandles file) {
  const std::string companion_path = path + kCompanionSuffix;
  OpenHandles handles(*io_);
  const int companion = handles.open(companion_path, {.read_only = true});
  if (companion == -ENOENT) return {};
  if (companion < 0) return failure("open", companion_path, -companion);
  const bool is_locked = options.whole && !options.read_only;
  if (!is_locked) {
    const auto any = has_batches(*io_, companion, companion_path);
    if (!any.ok() || (!*any && options.read_only)) return any.status();
  }
  int to = file.plain;
  if (!is_locked) {
    to = handles.open(path, {});
    if (to < 0) return failure("repair what a crash has left half written: cannot write to", path, -to);
    const int error = -io_->lock(to);
    // Who has it open writes it whole, and reading goes on beside it.
    if (error == EWOULDBLOCK && options.read_only) return {};
    if (error == EWOULDBLOCK) {
      return {Errc::kAlreadyExists, damage(path, "somebody else has it open for whole pages: close it there").what()};
    }
    if (error != 0) return failure("lock", path, error);
  }
  const auto pages = replay(*io_, companion, companion_path, to, path);
  if (!pages.ok()) return pages.status();
  if (*pages > 0) spdlog::info("{}: {} pages were put in place again, for it was not closed", path, *pages);
  return is_locked ? Status() : remove_durably(companion_path);
}

Status Pages::open_companion(OpenHandles& handles, const std::string& path, const PageFileOptions& options,
                             FileHandles& companion) {
  const std::string companion_path = path + kCompanionSuffix;
  companion.plain = handles.open(companion_path, {.create = true});
  if (companion.plain < 0) return failure("make", companion_path, -companion.plain);
  if (const Status status = make_companion(*io_, companion.plain, companion_path, options.page_bytes); !status.ok()) {
    return status;
  }
  add_direct(handles, companion_path, options, companion);
  return {};
}

Result<FileNumber> Pages::open(const std::string& path, const PageFileOptions& options) {
  if (!std::has_single_bit(options.page_bytes) || options.page_bytes < kLeastPageBytes ||
      options.page_bytes > kMostPageBytes) {
    return {Errc::kInvalidArgument, "the bytes of a page are a power of two from 4096 to 1 MiB"};
  }
  if (options.create && options.read_only) {
    return {Errc::kInvalidArgument, "a file that is made is not opened for reading only"};
  }
  OpenHandles handles(*io_);
  FileHandles file, companion;
  if (const Status status = open_file(handles, path, options, file); !status.ok()) return status;
  if (const Status status = repair(path, options, file); !status.ok()) return status;
  if (options.whole && !options.read_only) {
    if (const Status status = open_companion(handles, path, options, companion); !status.ok()) return status;
  }
  add_direct(handles, path, options, file);
  const std::int64_t bytes = io_->length(file.plain);
  if (bytes < 0) return failure("look at", path, int(-bytes));
  auto opened = std::make_unique<PageFile>(host_, path, options, file, companion, std::uint64_t(bytes));
  handles.keep();
  const auto free = std::find(files_.begin(), files_.end(), nullptr);
  const auto number = FileNumber(free - files_.begin());
  if (free == files_.end()) {
    files_.push_back(std::move(opened));
  } else {
    *free = std::move(opened);
  }
  return number;
}

Status Pages::close(FileNumber file) {
  const Status status = at(file).close();
  if (at(file).has_loose_ends()) closed_.push_back(std::move(files_[file]));
  files_[file].reset();
  return status;
}

}  // namespace

std::unique_ptr<PageStore> make_page_store(std::shared_ptr<AsyncIo> io) {
  return std::make_unique<Pages>(std::move(io));
}

std::unique_ptr<PageStore> make_page_store(std::uint32_t depth) {
  int error = 0;
  std::shared_ptr<AsyncIo> io = make_uring_io(std::max(depth, 1u), error);
  if (io == nullptr) {
    spdlog::warn("files are read and written by threads, for the system gives no io_uring: {}", std::strerror(error));
    io = make_thread_io(std::max(depth, 1u));
  }
  spdlog::info("files are read and written through {}", io->name());
  return make_page_store(std::move(io));
}

}  // namespace atoll::storage
