// The disk as one life of a simulated node sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/machine.hpp"
#include "storage/faulty_disk.hpp"

namespace atoll::sim {

/// Passes everything on to the node's disk, which outlives the node, and takes virtual time. When the node has crashed,
/// `is_over` is set, and whatever is left of it does nothing to the disk any more.
///
/// Thread-safety: the machine's. Invariants:
///   1. `joiners` counts who waits for the disk before the node has joined (`is_up`). Its engine may be locked then,
///      because its log is being made, and no other fiber may want that lock.
class SimDisk final : public storage::Disk {
 public:
  SimDisk(Machine& machine, storage::FaultyDisk& disk, const bool& is_up, const bool& is_over,
          std::uint32_t& joiners) noexcept
      : machine_(machine), disk_(disk), is_up_(is_up), is_over_(is_over), joiners_(joiners) {}

  [[nodiscard]] std::unique_ptr<storage::File> open(const std::string& name, storage::OpenMode mode) override;
  [[nodiscard]] bool exists(const std::string& name) override { return disk_.exists(name); }
  [[nodiscard]] Status remove(const std::string& name) override;
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override;
  [[nodiscard]] Result<std::vector<std::string>> list() override { return disk_.list(); }
  [[nodiscard]] Status sync_directory() override;
  [[nodiscard]] const std::string& path() const noexcept override { return disk_.path(); }
  [[nodiscard]] storage::BootId boot_id() noexcept override { return disk_.boot_id(); }
  void set_begun(bool begun) noexcept override {
    if (!is_over_) disk_.set_begun(begun);
  }
  [[nodiscard]] bool has_begun() noexcept override { return disk_.has_begun(); }

 private:
  class SimFile;
  void take_time();

  Machine& machine_;
  storage::FaultyDisk& disk_;
  const bool& is_up_;
  const bool& is_over_;
  std::uint32_t& joiners_;
};

}  // namespace atoll::sim
