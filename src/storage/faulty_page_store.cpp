#include "storage/faulty_page_store.hpp"

#include <utility>

#include "storage/simulated_io.hpp"

namespace atoll::storage {
namespace {

std::shared_ptr<AsyncIo> unowned(SimulatedIo& io) {
  return {std::shared_ptr<void>(), &io};
}

}  // namespace

FaultyPageStore::FaultyPageStore(std::uint64_t seed, std::function<std::int64_t()> clock, std::uint32_t depth,
                                 std::shared_ptr<FaultyDisk> disk)
    : disk_(disk ? std::move(disk) : std::make_shared<FaultyDisk>(~seed)),
      io_(std::make_unique<SimulatedIo>(*disk_, seed, std::move(clock), depth)),
      pages_(make_page_store(unowned(*io_))) {}

FaultyPageStore::~FaultyPageStore() = default;

void FaultyPageStore::set_faults(const PageFaults& faults) {
  io_->set_faults(faults);
}

void FaultyPageStore::fail_next(std::uint32_t n, int error) {
  io_->fail_next(n, error);
}

void FaultyPageStore::fail_next(Operation kind, std::uint32_t n, int error) {
  io_->fail_next(kind, n, error);
}

void FaultyPageStore::set_capacity(std::uint64_t bytes) {
  disk_->set_capacity(bytes);
}

void FaultyPageStore::crash(bool power) {
  io_->crash(power);
  pages_ = make_page_store(unowned(*io_));
}

std::int64_t FaultyPageStore::next_due() const {
  return io_->next_due();
}

std::uint64_t FaultyPageStore::requests() const {
  return io_->requests();
}

Result<FileNumber> FaultyPageStore::open(const std::string& path, const PageFileOptions& options) {
  return pages_->open(path, options);
}

Status FaultyPageStore::close(FileNumber file) {
  return pages_->close(file);
}

std::uint64_t FaultyPageStore::bytes(FileNumber file) const {
  return pages_->bytes(file);
}

Status FaultyPageStore::resize(FileNumber file, std::uint64_t bytes) {
  return pages_->resize(file, bytes);
}

Status FaultyPageStore::unlink(const std::string& path) {
  return pages_->unlink(path);
}

void FaultyPageStore::read(FileNumber file, std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag) {
  pages_->read(file, offset, into, tag);
}

void FaultyPageStore::write(FileNumber file, std::vector<PageImage> images, std::uint64_t tag) {
  pages_->write(file, std::move(images), tag);
}

void FaultyPageStore::sync(FileNumber file, std::uint64_t tag) {
  pages_->sync(file, tag);
}

void FaultyPageStore::flush() {
  pages_->flush();
}

std::size_t FaultyPageStore::reap(std::span<PageDone> into) {
  io_->calm();  // nobody waits for an event here: next_due() says when to look again
  return pages_->reap(into);
}

std::uint32_t FaultyPageStore::under_way() const {
  return pages_->under_way();
}

}  // namespace atoll::storage
