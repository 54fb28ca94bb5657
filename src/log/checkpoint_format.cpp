#include "log/checkpoint_format.hpp"

#include <algorithm>
#include <cstring>

#include "log/format.hpp"
#include "storage/failure.hpp"

namespace atoll::log {
namespace {

constexpr std::uint32_t kLongestName = 255;

struct BlobHeader {
  std::uint32_t name_bytes = 0;
  std::uint32_t zero = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(BlobHeader) == 16);

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.resize(padded(to.size()));
}

enum class Slot { kEmpty, kDamaged, kGood };

Slot judge(const CheckpointHeader& header, std::size_t place) {
  const auto bytes = std::as_bytes(std::span(&header, 1));
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; })) return Slot::kEmpty;
  const bool good = header.magic == kCheckpointMagic && header.version == kCheckpointVersion &&
                    header.crc == crc_of(header) && header.generation % 2 == place && header.generation != 0 &&
                    header.line_bytes >= 8 && header.memory_bytes % header.line_bytes == 0;
  return good ? Slot::kGood : Slot::kDamaged;
}

}  // namespace

std::uint32_t crc_of(const CheckpointHeader& header) noexcept {
  return base::crc32c(0, std::as_bytes(std::span(&header, 1)).first(offsetof(CheckpointHeader, crc)));
}

std::vector<std::byte> encode_blobs(const Blobs& blobs) {
  std::vector<std::byte> bytes;
  for (const auto& [name, blob] : blobs) {
    const BlobHeader header{std::uint32_t(name.size()), 0, blob.size()};
    append(bytes, std::as_bytes(std::span(&header, 1)));
    append(bytes, std::as_bytes(std::span(name)));
    append(bytes, blob);
  }
  return bytes;
}

std::optional<Blobs> decode_blobs(std::span<const std::byte> bytes) {
  Blobs blobs;
  const auto take = [&bytes](std::uint64_t count) {
    const auto taken = bytes.first(count);
    bytes = bytes.subspan(padded(count));
    return taken;
  };
  // Both are multiples of 8, so that what fits fits with its padding.
  if (bytes.size() % 8 != 0) return std::nullopt;
  while (!bytes.empty()) {
    BlobHeader header;
    if (bytes.size() < sizeof(header)) return std::nullopt;
    std::memcpy(&header, take(sizeof(header)).data(), sizeof(header));
    if (header.name_bytes > kLongestName || header.name_bytes > bytes.size()) return std::nullopt;
    const auto name = take(header.name_bytes);
    if (header.bytes > bytes.size()) return std::nullopt;
    const auto blob = take(header.bytes);
    blobs.emplace(std::string(reinterpret_cast<const char*>(name.data()), name.size()),
                  std::vector<std::byte>(blob.begin(), blob.end()));
  }
  return blobs;
}

Result<std::optional<CheckpointHeader>> read_checkpoint_header(storage::File& file) {
  std::optional<CheckpointHeader> newest;
  std::size_t damaged = 0;
  const auto size = file.size();
  if (!size.ok()) return size.status();
  for (std::size_t place = 0; place < 2; ++place) {
    CheckpointHeader header{};
    if (*size < place * kCheckpointSlotBytes + sizeof(header)) continue;
    const Status status = file.read(place * kCheckpointSlotBytes, std::as_writable_bytes(std::span(&header, 1)));
    if (!status.ok()) return status;
    const Slot slot = judge(header, place);
    if (slot == Slot::kDamaged) ++damaged;
    if (slot == Slot::kGood && (!newest || newest->generation < header.generation)) newest = header;
  }
  // A crash damages the one that is being written; the other was there before.
  if (damaged == 2) return storage::damage("a checkpoint", "both of its headers are damaged");
  return newest;
}

}  // namespace atoll::log
