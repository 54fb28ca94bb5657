// Links counted and pages ranked by all nodes together. Run it: atoll run -n 4 -- ./pagerank
#include <algorithm>
#include <atoll/atoll.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>

constexpr std::uint64_t kVertices = 20'000, kLinks = 4, kBins = 16;
constexpr double kDamping = 0.85;

/// Where the k-th link of a page leads.
std::uint64_t target(std::uint64_t page, std::uint64_t k) {
  return (page * (2 * k + 3) + page / 7 + k) % kVertices;
}

int main() {
  atoll::Node node = atoll::join();
  atoll::Array<std::uint64_t> links_to(node, kVertices), histogram(node, kBins);
  atoll::Array<double> rank(node, kVertices), next(node, kVertices);
  const std::uint64_t first = rank.local_begin(), last = rank.local_end();  // this node's pages

  for (std::uint64_t page = first; page < last; ++page) {
    for (std::uint64_t k = 0; k < kLinks; ++k)
      links_to.apply(target(page, k), atoll::op::add<std::uint64_t>, 1).or_throw();
  }
  node.barrier().or_throw();
  for (std::uint64_t page = first; page < last; ++page) {
    histogram.apply(std::min(links_to.get(page).value(), kBins - 1), atoll::op::add<std::uint64_t>, 1).or_throw();
  }

  rank.fill(1.0 / kVertices).or_throw();
  for (int round = 0; round < 5; ++round) {
    next.fill((1 - kDamping) / kVertices).or_throw();
    for (std::uint64_t page = first; page < last; ++page) {
      const double share = kDamping * rank.get(page).value() / kLinks;
      for (std::uint64_t k = 0; k < kLinks; ++k) next.apply(target(page, k), atoll::op::add<double>, share).or_throw();
    }
    node.barrier().or_throw();
    std::swap(rank, next);
  }

  double sum = 0;
  for (const double one : rank) sum += one;
  const auto best = std::max_element(rank.begin(), rank.end()) - rank.begin();
  if (node.id() == 0) {
    std::printf("%lu pages have 4 links; page %ld is the best, all ranks are %.6f\n",
                static_cast<unsigned long>(histogram.get(4).value()), static_cast<long>(best), sum);
  }
  return std::abs(sum - 1) < 1e-9 ? 0 : 1;
}
