// What YCSB does to which records: mixes of operations, distributions, keys and values that can be checked.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "bench/harness.hpp"

namespace atoll::bench::ycsb {

enum class Operation : std::uint8_t { kRead, kUpdate, kInsert, kScan, kModify };
inline constexpr std::size_t kOperations = 5;
[[nodiscard]] std::string_view name_of(Operation operation);

/// Which records are chosen.
enum class Distribution : std::uint8_t {
  kZipfian,  // some often, scattered over all records
  kLatest,   // what was inserted last the most
  kUniform,
};

/// Parts of the operations, whose sum is 1, by Operation.
struct Mix {
  std::array<double, kOperations> parts{};
  Distribution distribution = Distribution::kZipfian;
  double zipf = 0.99;

  [[nodiscard]] double part(Operation operation) const noexcept { return parts[std::size_t(operation)]; }
};
void to_json(nlohmann::json& out, const Mix& mix);
void from_json(const nlohmann::json& in, Mix& mix);
/// Workload 'A' to 'F' of YCSB's core; nothing when there is no such.
[[nodiscard]] std::optional<Mix> standard_mix(char workload);
/// Reads and updates.
[[nodiscard]] Mix get_put_mix(double get_ratio);

/// The sum of i^-skew for i from 1 to n, to 9 digits or so, in a time that does not grow with n.
[[nodiscard]] double zeta(std::uint64_t n, double skew);

/// Ranks below n, rank i with a probability of about (i + 1)^-skew, by the method of YCSB (Gray et al., SIGMOD 1994).
///
/// Thread-safety: none.
class Zipfian {
 public:
  /// REQUIRES: n > 0; 0 < skew < 1.
  Zipfian(std::uint64_t n, double skew);
  /// From now on there are n ranks.
  void resize(std::uint64_t n);
  std::uint64_t next(base::Random& random);

 private:
  std::uint64_t n_ = 0;
  double skew_, zeta2_;
  double zeta_n_ = 0, alpha_ = 0, eta_ = 0;
};

/// FNV-1a over the 8 bytes of a number, as YCSB scatters with: its bytes from the low one on, then the absolute value.
[[nodiscard]] std::uint64_t fnv_hash(std::uint64_t value) noexcept;

/// Ranks that YCSB's scrambled Zipfian distribution draws from, however many records there are.
inline constexpr std::uint64_t kScrambledRanks = 10'000'000'000;

/// One operation, drawn beforehand: what is measured is the operation, not the drawing.
struct Draw {
  std::uint64_t record : 48 = 0;  // or, for kLatest, how far behind the last one; not for inserts
  std::uint64_t length : 8 = 1;   // records of a scan
  Operation operation = Operation::kRead;
};
/// REQUIRES: records > 0.
[[nodiscard]] std::vector<Draw> draw_operations(const Mix& mix, std::uint64_t records, std::size_t count,
                                                std::uint64_t seed);
inline constexpr unsigned kLongestScan = 100;

/// "user" and 12 digits.
class Key {
 public:
  static constexpr std::size_t kBytes = 16;
  explicit Key(std::uint64_t record) noexcept;
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_.data(), kBytes}; }

 private:
  std::array<char, kBytes> bytes_;
};

inline constexpr std::size_t kLeastValue = 16;
/// The value of a record with a stamp, by which one put is told from the others.
/// REQUIRES: out.size() >= kLeastValue.
void fill_value(std::uint64_t record, std::uint64_t stamp, std::string& out);
/// Its stamp, when it is all of one value of this record.
[[nodiscard]] std::optional<std::uint64_t> stamp_of(std::uint64_t record, std::string_view value);

}  // namespace atoll::bench::ycsb
