// Threads that use few keys of a hash map as hard as they can while it grows around them, and note what they saw.
#pragma once

#include <charconv>
#include <string>
#include <vector>

#include "atoll/hash_map.hpp"
#include "support/history_workload.hpp"

namespace atoll::test {

/// A number as a value: its digits, and a tail whose length and letters follow from it, so that what is torn shows.
inline std::string map_value(std::uint64_t number) {
  const std::uint64_t mixed = number * 0x9e3779b97f4a7c15;
  const std::size_t tail = mixed >> 60 == 0 ? mixed >> 50 & 0x7ff : mixed >> 50 & 0x3f;
  std::string value = std::to_string(number);
  value.append(1, ':').append(tail, char('a' + number % 26));
  return value;
}
/// 0 for no value. Throws when it is none that map_value makes.
inline std::uint64_t map_number(std::optional<std::string_view> value) {
  if (!value) return 0;
  std::uint64_t number = 0;
  std::from_chars(value->data(), value->data() + value->size(), number);
  if (map_value(number) != *value) throw Error("a torn value: " + std::string(value->substr(0, 60)));
  return number;
}

/// Keys that all use: registers, and after them counters.
inline constexpr std::uint32_t kMapRegisters = 5;
inline constexpr std::uint32_t kMapCounters = 2;
inline constexpr std::uint32_t kMapKeys = kMapRegisters + kMapCounters;

/// A thread's own pairs, which make the table grow and lines leave the cache. Each of them must be as it was left.
///
/// Thread-safety: one thread.
class MapFiller {
 public:
  MapFiller(HashMap& map, std::uint64_t client, base::Random& random) : map_(map), client_(client), random_(random) {}

  void step() {
    if (there_.empty() || random_.chance(0.6)) {
      const bool is_new = map_.put(key(next_), map_value(next_ + 1)).value();
      if (!is_new) throw Error("a key was there before it was put");
      there_.push_back(next_++);
      return;
    }
    const std::size_t which = random_.below(there_.size());
    if (random_.chance(0.7)) return check(there_[which], true);
    if (!map_.erase(key(there_[which])).value()) throw Error("a key was lost");
    check(there_[which], false);
    there_[which] = there_.back();
    there_.pop_back();
  }
  void check_all() {
    for (const std::uint64_t number : there_) check(number, true);
  }
  [[nodiscard]] std::size_t size() const { return there_.size(); }

 private:
  [[nodiscard]] std::string key(std::uint64_t number) const {
    return "filler:" + std::to_string(client_) + ":" + std::to_string(number);
  }
  void check(std::uint64_t number, bool there) {
    const auto value = map_.get(key(number)).value();
    if (map_number(value) != (there ? number + 1 : 0)) throw Error("a pair of its own thread is not as it was left");
  }

  HashMap& map_;
  std::uint64_t client_;
  base::Random& random_;
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> there_;
};

/// One client of a map's keys: a key is a word whose value is 0 when it is not there.
///
/// Thread-safety: one thread.
class MapClient {
 public:
  MapClient(HashMap& map, const Workload& workload, OperationLog& log, std::uint64_t client)
      : map_(map),
        workload_(workload),
        log_(log),
        until_(workload),
        random_(workload.seed * 1000 + client),
        filler_(map, client, random_),
        unique_((client + 1) << 40),
        seen_(kMapKeys, 0) {}

  void run() {
    while (!until_.is_over() && !log_.full()) {
      if (random_.chance(0.3)) {
        filler_.step();
      } else if (random_.chance(0.2)) {
        add(kMapRegisters + std::uint32_t(random_.below(kMapCounters)));
      } else {
        access(std::uint32_t(random_.below(kMapRegisters)));
      }
      until_.count();
      if (random_.chance(0.1)) std::this_thread::yield();
    }
    filler_.check_all();
  }
  [[nodiscard]] std::size_t filled() const { return filler_.size(); }

 private:
  using OpKind = verify::OpKind;
  static std::string key_name(std::uint32_t key) { return "key:" + std::to_string(key); }

  void read(std::uint32_t key) {
    log_.called(OpKind::kRead, key);
    std::uint64_t number = 0;
    if (random_.chance(0.3)) {  // among others
      const std::string name = key_name(key), other = key_name(std::uint32_t(random_.below(kMapRegisters)));
      const std::vector<std::string_view> keys{other, name, "nobody"};
      map_.get_many(keys,
                    [&](std::size_t index, auto value) {
                      if (index == 1) number = map_number(value);
                    })
          .or_throw();
    } else {
      const auto value = map_.get(key_name(key)).value();
      number = map_number(value);
    }
    const bool old = workload_.mistake == Mistake::kOldRead && random_.chance(0.2);
    log_.returned(old ? seen_[key] : number);
    if (!old) seen_[key] = number;
  }

  void access(std::uint32_t key) {
    const std::string name = key_name(key);
    const std::uint64_t dice = random_.below(100);
    const std::uint64_t number = ++unique_;
    if (dice < 50) return read(key);
    if (dice < 65) {
      log_.called(OpKind::kWrite, key, number);
      map_.put(name, map_value(number)).status().or_throw();
      return log_.returned();
    }
    if (dice < 72) {
      log_.called(OpKind::kExchange, key, 0);
      log_.returned(replace(name, {}));
      return;
    }
    if (dice < 80) {
      log_.called(OpKind::kExchange, key, number);
      log_.returned(replace(name, number));
      return;
    }
    log_.called(OpKind::kCompareExchange, key, number, seen_[key]);
    const std::uint64_t found = swap(name, seen_[key], number);
    log_.returned(found);
    seen_[key] = found == seen_[key] ? number : found;
  }
  /// What was there.
  std::uint64_t replace(const std::string& key, std::optional<std::uint64_t> by) {
    std::uint64_t before = 0;
    map_.update(key,
                [&](std::optional<std::string_view> current, std::string& next) {
                  before = map_number(current);
                  if (by) next = map_value(*by);
                  return by ? Change::kPut : Change::kErase;
                })
        .status()
        .or_throw();
    return before;
  }
  std::uint64_t swap(const std::string& key, std::uint64_t expected, std::uint64_t desired) {
    if (expected != 0 && random_.chance(0.3)) {
      // The call itself tells only whether it was done.
      if (map_.compare_and_swap(key, map_value(expected), map_value(desired)).value()) return expected;
    }
    std::uint64_t found = 0;
    map_.update(key,
                [&](std::optional<std::string_view> current, std::string& next) {
                  found = map_number(current);
                  next = map_value(desired);
                  return found == expected ? Change::kPut : Change::kKeep;
                })
        .status()
        .or_throw();
    return found;
  }
  void add(std::uint32_t key) {
    const std::string name = key_name(key);
    const std::int64_t amount = 1 + std::int64_t(random_.below(3));
    log_.called(OpKind::kFetchAdd, key, std::uint64_t(amount));
    if (workload_.mistake == Mistake::kSplitAdd) {
      const auto text = map_.get(name).value();
      const std::uint64_t before = text ? std::stoull(*text) : 0;
      std::this_thread::yield();
      map_.put(name, std::to_string(before + std::uint64_t(amount))).status().or_throw();
      return log_.returned(before);
    }
    log_.returned(std::uint64_t(map_.increment(name, amount).value() - amount));
  }

  HashMap& map_;
  const Workload& workload_;
  OperationLog& log_;
  Until until_;
  base::Random random_;
  MapFiller filler_;
  std::uint64_t unique_;
  std::vector<std::uint64_t> seen_;  // of each key, what this client saw last: what a swap expects
};

/// One client who reads and writes several keys in one step.
///
/// Thread-safety: one thread.
class MapStepClient {
 public:
  MapStepClient(HashMap& map, const Workload& workload, TransactionLog& log, std::uint64_t client)
      : map_(map),
        workload_(workload),
        log_(log),
        until_(workload),
        random_(workload.seed * 1000 + client),
        filler_(map, client, random_),
        unique_((client + 1) << 32) {}

  void run() {
    while (!until_.is_over() && !log_.full()) {
      if (random_.chance(0.3)) filler_.step();
      transact();
      until_.count();
    }
    filler_.check_all();
  }

 private:
  void transact() {
    std::vector<std::uint64_t> numbers;
    while (numbers.size() < 2 + random_.below(2)) numbers.push_back(random_.below(kMapRegisters));
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    std::vector<std::string> names;
    for (const std::uint64_t number : numbers) names.push_back("account:" + std::to_string(number));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    log_.begin();
    if (random_.chance(0.4)) {
      map_.get_together(keys, [&](std::size_t i, auto value) { log_.note(numbers[i], map_number(value), false); })
          .or_throw();
    } else if (workload_.mistake == Mistake::kNoLocks) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        log_.note(numbers[i], map_number(map_.get(keys[i]).value()), false);
        std::this_thread::yield();
        log_.note(numbers[i], ++unique_, true);
        map_.put(keys[i], map_value(unique_)).status().or_throw();
      }
    } else {
      map_.together(keys, [&](HashMap::Step& step) { return change(step, numbers, keys); }).or_throw();
    }
    log_.end(verify::Outcome::kCommitted);
  }
  Status change(HashMap::Step& step, const std::vector<std::uint64_t>& numbers,
                const std::vector<std::string_view>& keys) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto value = step.get(keys[i]);
      if (!value.ok()) return value.status();
      log_.note(numbers[i], map_number(*value), false);
      log_.note(numbers[i], ++unique_, true);
      const auto put = step.put(keys[i], map_value(unique_));
      if (!put.ok()) return put.status();
    }
    return {};
  }

  HashMap& map_;
  const Workload& workload_;
  TransactionLog& log_;
  Until until_;
  base::Random random_;
  MapFiller filler_;
  std::uint64_t unique_;
};

}  // namespace atoll::test
