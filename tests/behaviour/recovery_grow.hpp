// A hash map that grows: each worker puts one key after the other, until there is no room.
#pragma once

#include "behaviour/recovery_values.hpp"

namespace atoll::test {

/// The keys of a worker are numbered from 0 on.
constexpr std::uint64_t grown_key(std::uint64_t worker, std::uint64_t number) noexcept {
  return worker << 32 | number;
}

/// Thread-safety: as Load.
class Grow final : public Load {
 public:
  using Load::Load;

  void begin() override {
    map_ = std::make_unique<ValueMap>(node_, [this](const std::string& name) { return await(name); });
    for (unsigned thread = 0; thread < size_.threads; ++thread) find_out(worker_of(thread));
  }

  std::unique_ptr<Worker> make_worker(unsigned thread) override {
    return std::make_unique<Client>(*this, worker_of(thread));
  }

  /// All that anybody was told to have put, and of each worker one more, which must not be there.
  void dump(const std::string& path) override {
    std::vector<FoundValue> all;
    for (unsigned worker = 0; worker < workers(); ++worker) {
      const std::uint64_t count = told(worker);
      for (std::uint64_t number = 0; number <= count; ++number) all.push_back(map_->find(grown_key(worker, number)));
    }
    save_file(path, all);
  }

 private:
  class Client final : public Worker {
   public:
    Client(Grow& load, unsigned worker) : load_(load), worker_(worker), next_(load.told(worker)) {}
    void step() override {
      load_.map_->put(Value::make(grown_key(worker_, next_), worker_, next_));
      load_.note(worker_, next_++);
    }

   private:
    Grow& load_;
    const unsigned worker_;
    std::uint64_t next_;
  };

  void note(unsigned worker, std::uint64_t number) {
    Record record;
    record.worker = worker;
    record.from = std::uint32_t(number);
    record.number = number + 1;
    journal_.append(record);
  }
  /// How many puts the worker, of whatever node, was told to have done.
  [[nodiscard]] std::uint64_t told(unsigned worker) const {
    std::uint64_t count = 0;
    for (const Record& record : load_journal(directory_, worker / size_.threads)) {
      if (record.worker == worker) count = record.number;
    }
    return count;
  }
  /// The worker's last put, of which the process before may not have been told.
  void find_out(unsigned worker) {
    const std::uint64_t next = told(worker);
    const FoundValue found = map_->find(grown_key(worker, next));
    if (found.bytes == 0) return;
    if (found.bytes == sizeof(Value) && found.value.is_whole(grown_key(worker, next))) return note(worker, next);
    complain("key " + std::to_string(next) + " of worker " + std::to_string(worker) + " is damaged");
  }

  std::unique_ptr<ValueMap> map_;
};

}  // namespace atoll::test
