#include "sim/disk.hpp"

namespace atoll::sim {
namespace {

constexpr Time kDisk_ns = 20'000;  // what an operation takes, on the average

Status over() {
  return {Errc::kStorage, "the node has crashed"};
}

}  // namespace

class SimDisk::SimFile final : public storage::File {
 public:
  SimFile(SimDisk& disk, std::unique_ptr<storage::File> file) : disk_(disk), file_(std::move(file)) {}

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> into) override {
    return file_->read(offset, into);
  }
  [[nodiscard]] Status write(std::uint64_t offset, std::span<const std::byte> from) override {
    disk_.take_time();
    return file_->write(offset, from);
  }
  /// What is there when it begins is what it makes durable; some of what comes meanwhile may be, too.
  [[nodiscard]] Status sync() override {
    disk_.take_time();
    const Status status = file_->sync();
    disk_.take_time();
    return status;
  }
  [[nodiscard]] Status resize(std::uint64_t bytes) override { return file_->resize(bytes); }
  [[nodiscard]] Status extend(std::uint64_t bytes) override { return file_->extend(bytes); }
  [[nodiscard]] Result<std::uint64_t> size() override { return file_->size(); }
  [[nodiscard]] Result<std::span<std::byte>> map() override { return file_->map(); }
  void prepare(std::uint64_t offset, std::uint64_t bytes, bool is_fresh) noexcept override {
    file_->prepare(offset, bytes, is_fresh);
  }
  [[nodiscard]] Result<storage::Extent> next_extent(std::uint64_t from) override { return file_->next_extent(from); }
  void read_ahead(std::uint64_t offset, std::uint64_t bytes) noexcept override { file_->read_ahead(offset, bytes); }

 private:
  SimDisk& disk_;
  std::unique_ptr<storage::File> file_;
};

void SimDisk::take_time() {
  if (!machine_.in_fiber()) return;
  const std::uint32_t joiner = is_up_ ? 0 : 1;
  joiners_ += joiner;
  machine_.sleep_ns(machine_.random().below(2 * kDisk_ns));
  joiners_ -= joiner;
}

std::unique_ptr<storage::File> SimDisk::open(const std::string& name, storage::OpenMode mode) {
  if (is_over_) throw Error("the node has crashed", Errc::kStorage);
  return std::make_unique<SimFile>(*this, disk_.open(name, mode));
}

Status SimDisk::remove(const std::string& name) {
  take_time();
  return is_over_ ? over() : disk_.remove(name);
}

Status SimDisk::rename(const std::string& from, const std::string& to) {
  take_time();
  return is_over_ ? over() : disk_.rename(from, to);
}

Status SimDisk::sync_directory() {
  take_time();
  return is_over_ ? over() : disk_.sync_directory();
}

}  // namespace atoll::sim
