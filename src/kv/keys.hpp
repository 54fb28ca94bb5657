// What a command does to its keys, whichever way it got hold of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "atoll/hash_map.hpp"
#include "kv/service.hpp"
#include "kv/value.hpp"

namespace atoll::kv {

/// The keys of a command, while nobody else changes them. Pairs that have expired are as absent.
///
/// The first error is kept, and everything after it does nothing: who runs the command looks at `status` at its end.
/// Thread-safety: none.
class Keys {
 public:
  explicit Keys(Worker& worker) noexcept : worker_(worker) {}
  virtual ~Keys() = default;
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  /// What the key has; good until the key is changed.
  std::optional<Item> get(std::string_view key);
  void put(std::string_view key, std::string_view value, std::int64_t expires_at = kNever);
  /// Puts keys and values, which stand in turn. When it fails, what it has put is undone if there is the memory.
  void put_all(std::span<const std::string_view> pairs);
  /// Whether it was there.
  bool erase(std::string_view key);

  [[nodiscard]] Status status() const noexcept { return status_; }
  /// The same for all of the command.
  [[nodiscard]] std::int64_t now();
  [[nodiscard]] Worker& worker() noexcept { return worker_; }

 protected:
  void fail(Status status) noexcept {
    if (status_.ok()) status_ = status;
  }

 private:
  virtual Result<std::optional<std::string_view>> read(std::string_view key) = 0;
  virtual Status write(std::string_view key, std::string_view value, std::int64_t expires_at) = 0;
  virtual Status remove(std::string_view key) = 0;
  /// REQUIRES: no value is too long.
  virtual Status write_all(std::span<const std::string_view> pairs);
  static Status check_length(std::string_view value) noexcept;

  Worker& worker_;
  Status status_;
  std::int64_t now_ = 0;
};

/// One key that is only read: what `HashMap::get` found.
class ReadKey final : public Keys {
 public:
  ReadKey(Worker& worker, std::optional<std::string_view> stored) noexcept : Keys(worker), stored_(stored) {}
  /// It was there, but had expired.
  [[nodiscard]] bool met_expired() const noexcept { return met_expired_; }

 private:
  Result<std::optional<std::string_view>> read(std::string_view) override { return stored_; }
  Status write(std::string_view, std::string_view, std::int64_t) override;
  Status remove(std::string_view) override;

  std::optional<std::string_view> stored_;
  bool met_expired_ = false;
};

/// Several keys that are only read: what `HashMap::get_together` found.
class ReadKeys final : public Keys {
 public:
  explicit ReadKeys(Worker& worker) noexcept : Keys(worker) {}
  /// REQUIRES: the key's bytes stay where they are as long as this object.
  void add(std::string_view key, std::optional<std::string_view> stored) { stored_.emplace(key, stored); }
  /// Those that were there, but had expired.
  [[nodiscard]] const std::vector<std::string_view>& expired() const noexcept { return expired_; }

 private:
  Result<std::optional<std::string_view>> read(std::string_view key) override;
  Status write(std::string_view, std::string_view, std::int64_t) override;
  Status remove(std::string_view key) override;

  std::unordered_map<std::string_view, std::optional<std::string>> stored_;
  std::vector<std::string_view> expired_;
};

/// One key within `HashMap::update`.
class UpdateKey final : public Keys {
 public:
  UpdateKey(Worker& worker, std::optional<std::string_view> stored, std::string& next) noexcept
      : Keys(worker), stored_(stored), next_(next) {}
  [[nodiscard]] Change change() const noexcept { return status().ok() ? change_ : Change::kKeep; }

 private:
  Result<std::optional<std::string_view>> read(std::string_view) override { return stored_; }
  Status write(std::string_view, std::string_view value, std::int64_t expires_at) override;
  Status remove(std::string_view) override;

  std::optional<std::string_view> stored_;
  std::string& next_;
  Change change_ = Change::kKeep;
};

/// A step that reads each key once: the map's own keeps whatever was read until it ends, and a transaction may ask for
/// a large value very often.
///
/// REQUIRES: the bytes of all keys stay where they are as long as this object.
class CachedStep final : public HashMap::Step {
 public:
  explicit CachedStep(HashMap::Step& step) noexcept : step_(step) {}
  Result<std::optional<std::string_view>> get(std::string_view key) override;
  Result<bool> put(std::string_view key, std::string_view value) override;
  Result<bool> erase(std::string_view key) override;

 private:
  HashMap::Step& step_;
  std::unordered_map<std::string_view, std::optional<std::string>> read_;
};

/// Several keys within `HashMap::together`.
class StepKeys final : public Keys {
 public:
  StepKeys(Worker& worker, HashMap::Step& step) noexcept : Keys(worker), step_(step) {}

 private:
  Result<std::optional<std::string_view>> read(std::string_view key) override { return step_.get(key); }
  Status write(std::string_view key, std::string_view value, std::int64_t expires_at) override;
  Status remove(std::string_view key) override { return step_.erase(key).status(); }
  Status write_all(std::span<const std::string_view> pairs) override;

  struct Write {
    std::string_view key, value;
    std::optional<std::string> former;
    bool is_done;
  };
  void undo(std::span<const Write> writes);

  HashMap::Step& step_;
};

/// Erases the pair if it has expired, still.
void erase_expired(Worker& worker, std::string_view key);

}  // namespace atoll::kv
