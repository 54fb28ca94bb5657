// The public class File, and what Node does with files: all is handed over to the runtime.
#include "atoll/file.hpp"

#include <utility>

#include "atoll/node.hpp"
#include "base/log.hpp"
#include "runtime/file_calls.hpp"
#include "runtime/runtime.hpp"

namespace atoll {

namespace runtime {

/// Makes what the files need, where this node was joined with room for any.
void Runtime::begin_files(std::unique_ptr<storage::PageStore> store) {
  if (segment_.file_bytes() == 0) return;
  Files::Setup setup;
  setup.self = self_;
  setup.nodes = nodes_;
  setup.budget_bytes = options_.file_memory_bytes;
  setup.segment = &segment_;
  setup.lines = lines_.get();
  setup.protocol = &protocol_;
  setup.counters = counters_;
  setup.host = &host_;
  setup.offer = [this](const LineRef& ref, NodeId to) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
    send(ref, to, {wire::Kind::kOffer, false, self_, to, 0});
  };
  setup.busy = &pages_under_way_;
  setup.is_dead = [this](NodeId node) { return is_dead(node); };
  files_ = std::make_unique<Files>(std::move(setup), std::move(store));
}

void Runtime::load(const LineRef& ref) {
  files_->load(ref);
}

NodeId Runtime::sharer_to_ask(const LineRef& ref) {
  return files_->sharer_to_ask(ref);
}

void Runtime::note_held(const LineRef& ref, bool held) {
  files_->note_held(ref, held);
}

}  // namespace runtime

using runtime::FileRequest;

namespace {
constexpr Status kClosed(Errc::kInvalidArgument, "the file is closed");
constexpr Status kBeyond(Errc::kInvalidArgument, "beyond the end of the file: resize it first");
}  // namespace

Result<File> Node::open_file(std::string_view path, const FileOptions& options) noexcept {
  const Result<FileInfo> info = runtime_->file_calls().open(path, options);
  if (!info.ok()) return info.status();
  return File(*this, info->address.node(), *info);
}

Status Node::unlink_file(std::string_view path, NodeId node) noexcept {
  return runtime_->file_calls().unlink(path, node);
}

File::File(File&& other) noexcept
    : node_(std::exchange(other.node_, nullptr)), home_(other.home_), info_(other.info_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(node_, other.node_);
  std::swap(home_, other.home_);
  std::swap(info_, other.info_);
  return *this;
}

File::~File() {
  if (const Status status = node_ == nullptr ? Status() : close(); !status.ok()) {
    spdlog::error("a file was closed with changes that are not in it: {}", status.to_string());
  }
}

Status File::read(std::uint64_t offset, std::span<std::byte> into) const noexcept {
  if (node_ == nullptr) return kClosed;
  if (offset > info_.bytes || into.size() > info_.bytes - offset) return kBeyond;
  return into.empty() ? Status() : node_->read(info_.address + std::int64_t(offset), into);
}

Status File::write(std::uint64_t offset, std::span<const std::byte> from) noexcept {
  if (node_ == nullptr) return kClosed;
  if (info_.read_only) return {Errc::kInvalidArgument, "the file is open to be read only", home_};
  if (offset > info_.bytes || from.size() > info_.bytes - offset) return kBeyond;
  return from.empty() ? Status() : node_->write(info_.address + std::int64_t(offset), from);
}

Status File::refresh() noexcept {
  if (node_ == nullptr) return kClosed;
  const Result<FileInfo> info = node_->runtime().file_calls().call(info_, FileRequest::kAsk, 0, 0);
  if (info.ok()) info_.bytes = info->bytes;
  return info.status();
}

Status File::flush(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (node_ == nullptr) return kClosed;
  return node_->runtime().file_calls().call(info_, FileRequest::kFlush, offset, bytes).status();
}

Status File::resize(std::uint64_t bytes) noexcept {
  if (node_ == nullptr) return kClosed;
  const Result<FileInfo> info = node_->runtime().file_calls().call(info_, FileRequest::kResize, 0, bytes);
  if (info.ok()) info_.bytes = info->bytes;
  return info.status();
}

Status File::close() noexcept {
  if (node_ == nullptr) return kClosed;
  return std::exchange(node_, nullptr)->runtime().file_calls().close(info_);
}

}  // namespace atoll
