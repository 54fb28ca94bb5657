// A hash map of checkable values, which the first node makes and the others find by its name.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "behaviour/recovery_worker.hpp"

namespace atoll::test {

/// Thread-safety: as HashMap.
class ValueMap {
 public:
  /// `await` finds an address by its name.
  template <typename Await>
  ValueMap(Node& node, Await await) {
    if (!node.recovered() && node.id() == 0) {
      map_ = std::make_unique<HashMap>(node);
      node.publish("map", map_->address()).or_throw();
    } else {
      map_ = std::make_unique<HashMap>(node, await("map"));
    }
  }

  [[nodiscard]] GlobalAddress address() const { return map_->address(); }
  void put(const Value& value) {
    map_->put(name_of(value.key), {reinterpret_cast<const char*>(&value), sizeof(value)}).status().or_throw();
  }
  [[nodiscard]] FoundValue find(std::uint64_t key) {
    std::string stored;
    const bool there = map_->get(name_of(key), stored).value();
    FoundValue found;
    found.bytes = there ? stored.size() : 0;
    std::copy_n(stored.data(), there ? std::min(stored.size(), sizeof(Value)) : 0,
                reinterpret_cast<char*>(&found.value));
    return found;
  }

 private:
  static std::string name_of(std::uint64_t key) { return "user" + std::to_string(key); }

  std::unique_ptr<HashMap> map_;
};

}  // namespace atoll::test
