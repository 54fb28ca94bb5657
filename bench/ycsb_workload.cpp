#include "bench/ycsb_workload.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace atoll::bench::ycsb {
namespace {

constexpr std::uint64_t kRecordMask = (std::uint64_t{1} << 48) - 1;

Mix make_mix(std::initializer_list<std::pair<Operation, double>> parts, Distribution distribution) {
  Mix mix;
  for (const auto& [operation, part] : parts) mix.parts[std::size_t(operation)] = part;
  mix.distribution = distribution;
  return mix;
}

/// A word of a value: what stands behind the stamp.
std::uint64_t word_of(std::uint64_t record, std::uint64_t stamp, std::uint64_t index) noexcept {
  std::uint64_t z = (record + 1) * 0x9e3779b97f4a7c15 ^ stamp;
  z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9;
  return (z ^ (z >> 32)) + index;
}

double uniform(base::Random& random) {
  return double(random.next() >> 11) * 0x1.0p-53;
}

}  // namespace

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::kRead: return "read";
    case Operation::kUpdate: return "update";
    case Operation::kInsert: return "insert";
    case Operation::kScan: return "scan";
    case Operation::kModify: return "modify";
  }
  return "";
}

void to_json(nlohmann::json& out, const Mix& mix) {
  out = {{"parts", mix.parts}, {"distribution", int(mix.distribution)}, {"zipf", mix.zipf}};
}

void from_json(const nlohmann::json& in, Mix& mix) {
  in.at("parts").get_to(mix.parts);
  mix.distribution = Distribution(in.at("distribution").get<int>());
  in.at("zipf").get_to(mix.zipf);
}

std::optional<Mix> standard_mix(char workload) {
  using enum Operation;
  switch (workload) {
    case 'A': return get_put_mix(0.5);
    case 'B': return get_put_mix(0.95);
    case 'C': return get_put_mix(1);
    case 'D': return make_mix({{kRead, 0.95}, {kInsert, 0.05}}, Distribution::kLatest);
    case 'E': return make_mix({{kScan, 0.95}, {kInsert, 0.05}}, Distribution::kZipfian);
    case 'F': return make_mix({{kRead, 0.5}, {kModify, 0.5}}, Distribution::kZipfian);
    default: return {};
  }
}

Mix get_put_mix(double get_ratio) {
  return make_mix({{Operation::kRead, get_ratio}, {Operation::kUpdate, 1 - get_ratio}}, Distribution::kZipfian);
}

double zeta(std::uint64_t n, double skew) {
  constexpr std::uint64_t kExact = 1000;
  double sum = 0;
  const std::uint64_t exact = std::min(n, kExact);
  for (std::uint64_t i = 1; i <= exact; ++i) sum += std::pow(double(i), -skew);
  if (n <= kExact) return sum;
  // Euler and Maclaurin: the sum behind is the integral and what it misses at both ends.
  const auto f = [skew](double x) { return std::pow(x, -skew); };
  const auto slope = [skew](double x) { return -skew * std::pow(x, -skew - 1); };
  const double from = double(exact), to = double(n);
  sum += (std::pow(to, 1 - skew) - std::pow(from, 1 - skew)) / (1 - skew);
  return sum + (f(to) - f(from)) / 2 + (slope(to) - slope(from)) / 12;
}

Zipfian::Zipfian(std::uint64_t n, double skew) : skew_(skew), zeta2_(zeta(2, skew)) {
  resize(n);
}

void Zipfian::resize(std::uint64_t n) {
  n_ = n;
  zeta_n_ = zeta(n, skew_);
  alpha_ = 1 / (1 - skew_);
  eta_ = (1 - std::pow(2 / double(n), 1 - skew_)) / (1 - zeta2_ / zeta_n_);
}

std::uint64_t Zipfian::next(base::Random& random) {
  const double u = uniform(random);
  const double uz = u * zeta_n_;
  if (uz < 1 || n_ < 2) return 0;
  if (uz < 1 + std::pow(0.5, skew_) || n_ == 2) return 1;
  return std::min(n_ - 1, std::uint64_t(double(n_) * std::pow(eta_ * u - eta_ + 1, alpha_)));
}

std::uint64_t fnv_hash(std::uint64_t value) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (int i = 0; i < 8; ++i) {
    hash = (hash ^ (value & 0xff)) * 1099511628211u;
    value >>= 8;
  }
  const auto number = std::int64_t(hash);
  return number < 0 ? std::uint64_t(0) - hash : hash;
}

std::vector<Draw> draw_operations(const Mix& mix, std::uint64_t records, std::size_t count, std::uint64_t seed) {
  base::Random random(seed);
  const bool scattered = mix.distribution == Distribution::kZipfian;
  std::optional<Zipfian> zipfian;
  if (mix.distribution != Distribution::kUniform) zipfian.emplace(scattered ? kScrambledRanks : records, mix.zipf);
  std::vector<Draw> draws(count);
  for (Draw& draw : draws) {
    double lot = uniform(random);
    std::size_t operation = 0;
    while (operation + 1 < kOperations && lot >= mix.parts[operation]) lot -= mix.parts[operation++];
    draw.operation = Operation(operation);
    const std::uint64_t drawn = zipfian ? zipfian->next(random) : random.below(records);
    draw.record = (scattered ? fnv_hash(drawn) % records : drawn) & kRecordMask;
    if (draw.operation == Operation::kScan) draw.length = std::uint8_t(1 + random.below(kLongestScan));
  }
  return draws;
}

Key::Key(std::uint64_t record) noexcept : bytes_{'u', 's', 'e', 'r'} {
  for (std::size_t i = kBytes; i-- > 4; record /= 10) bytes_[i] = char('0' + record % 10);
}

void fill_value(std::uint64_t record, std::uint64_t stamp, std::string& out) {
  std::memcpy(out.data(), &stamp, sizeof(stamp));
  const std::uint64_t first = word_of(record, stamp, 0);
  for (std::size_t at = sizeof(stamp), i = 0; at < out.size(); at += sizeof(first), ++i) {
    const std::uint64_t word = first + i;
    std::memcpy(out.data() + at, &word, std::min(sizeof(word), out.size() - at));
  }
}

std::optional<std::uint64_t> stamp_of(std::uint64_t record, std::string_view value) {
  if (value.size() < kLeastValue) return {};
  std::uint64_t stamp = 0;
  std::memcpy(&stamp, value.data(), sizeof(stamp));
  const std::uint64_t first = word_of(record, stamp, 0);
  std::uint64_t wrong = 0;
  std::size_t at = sizeof(stamp), i = 0;
  for (; at + sizeof(first) <= value.size(); at += sizeof(first), ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, value.data() + at, sizeof(word));
    wrong |= word ^ (first + i);
  }
  const std::uint64_t last = first + i;
  if (at < value.size() && std::memcmp(&last, value.data() + at, value.size() - at) != 0) return {};
  if (wrong != 0) return {};
  return stamp;
}

}  // namespace atoll::bench::ycsb
