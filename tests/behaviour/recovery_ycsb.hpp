// YCSB's workload A on a hash map: half reads, half updates, some keys much more often than others. A worker updates
// keys of its own, so that everybody knows which put of a key was the last; it reads all of them.
#pragma once

#include <cmath>

#include "base/random.hpp"
#include "behaviour/recovery_values.hpp"

namespace atoll::test {

/// Thread-safety: as Load.
class Ycsb final : public Load {
 public:
  using Load::Load;

  void begin() override {
    map_ = std::make_unique<ValueMap>(node_, [this](const std::string& name) { return await(name); });
    counters_.resize(size_.keys);
    for (unsigned thread = 0; thread < size_.threads; ++thread) {
      const unsigned worker = worker_of(thread);
      for (std::uint64_t key = worker; key < size_.keys && !node_.recovered(); key += workers()) {
        map_->put(Value::make(key, worker, 0));
      }
      if (node_.recovered()) find_out(worker);
    }
    // Nobody reads before all keys are there: each says so when its own are.
    node_.fence().or_throw();
    if (!node_.recovered()) node_.publish("loaded " + std::to_string(node_.id()), map_->address()).or_throw();
    for (NodeId k = 0; k < node_.count(); ++k) (void)await("loaded " + std::to_string(k));
  }

  std::unique_ptr<Worker> make_worker(unsigned thread) override {
    return std::make_unique<Client>(*this, worker_of(thread));
  }

  void dump(const std::string& path) override {
    std::vector<FoundValue> all;
    for (std::uint64_t key = 0; key < size_.keys; ++key) all.push_back(map_->find(key));
    save_file(path, all);
  }

 private:
  class Client final : public Worker {
   public:
    /// Each process of a node does something else.
    Client(Ycsb& load, unsigned worker)
        : load_(load),
          worker_(worker),
          random_((load.size_.seed * 1013 + worker) * 1009 + std::uint64_t(::getpid())),
          seen_(load.size_.keys) {
      double sum = 0;
      for (unsigned rank = 0; rank < load.size_.keys; ++rank) {
        sum += std::pow(rank + 1.0, -kSkew);
        sums_.push_back(sum);
      }
    }

    void step() override {
      std::uint64_t key = draw();
      if (random_.below(2) == 0) return read(key);
      key = key / load_.workers() * load_.workers() + worker_;
      if (key >= load_.size_.keys) key = worker_;
      load_.update(key, worker_);
    }

   private:
    static constexpr double kSkew = 0.99;

    std::uint64_t draw() {
      const double lot = double(random_.next() >> 11) * 0x1.0p-53 * sums_.back();
      const auto rank = std::uint64_t(std::lower_bound(sums_.begin(), sums_.end(), lot) - sums_.begin());
      return std::min<std::uint64_t>(rank, sums_.size() - 1) * 2654435761u % sums_.size();
    }
    /// What was seen once has happened: it never goes back.
    void read(std::uint64_t key) {
      const FoundValue found = load_.map_->find(key);
      if (found.bytes != sizeof(Value) || !found.value.is_whole(key)) {
        load_.complain("key " + std::to_string(key) + " is missing or damaged");
      } else if (found.value.counter < seen_[key]) {
        load_.complain("key " + std::to_string(key) + " had put " + std::to_string(seen_[key]) + ", and now has put " +
                       std::to_string(found.value.counter));
      } else {
        seen_[key] = found.value.counter;
      }
    }

    Ycsb& load_;
    const unsigned worker_;
    base::Random random_;
    std::vector<double> sums_;         // for Zipf's law: the part of this rank and of those before
    std::vector<std::uint64_t> seen_;  // of each key
  };

  void update(std::uint64_t key, unsigned worker) {
    const std::uint64_t counter = counters_[key] + 1;
    map_->put(Value::make(key, worker, counter));
    counters_[key] = counter;
    journal_.append(record_of(key, worker, counter));
  }
  static Record record_of(std::uint64_t key, unsigned worker, std::uint64_t counter) {
    Record record;
    record.worker = worker;
    record.from = std::uint32_t(key);
    record.number = counter;
    return record;
  }

  /// What became of the worker's last put, of which the process before may not have been told. The journal is exact
  /// after that.
  void find_out(unsigned worker) {
    for (const Record& record : journal_of(worker)) counters_[record.from] = record.number;
    unsigned more = 0;
    for (std::uint64_t key = worker; key < size_.keys; key += workers()) {
      const FoundValue found = map_->find(key);
      const std::uint64_t told = counters_[key];
      if (found.bytes == sizeof(Value) && found.value.is_whole(key) && found.value.counter == told) continue;
      if (found.bytes != sizeof(Value) || !found.value.is_whole(key) || found.value.counter != told + 1 || ++more > 1) {
        complain("key " + std::to_string(key) + " was put " + std::to_string(told) + " times, and " +
                 (found.bytes == 0 ? "is not there" : "has put " + std::to_string(found.value.counter)));
        continue;
      }
      counters_[key] = told + 1;
      journal_.append(record_of(key, worker, told + 1));
    }
  }

  std::unique_ptr<ValueMap> map_;
  std::vector<std::uint64_t> counters_;  // of each key of this node's workers: its last put
};

}  // namespace atoll::test
