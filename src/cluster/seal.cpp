#include "cluster/seal.hpp"

#include <sodium.h>

namespace atoll::cluster {

Seal::Tag Seal::next(std::string_view frame) noexcept {
  std::array<std::uint8_t, 1 + sizeof(number_)> head{std::uint8_t(sender_)};
  for (std::size_t k = 0; k < sizeof(number_); ++k) head[1 + k] = std::uint8_t(number_ >> (8 * k));
  ++number_;
  Tag tag;
  crypto_generichash_state state;
  (void)::crypto_generichash_init(&state, session_.bytes().data(), Key::kBytes, tag.size());
  (void)::crypto_generichash_update(&state, head.data(), head.size());
  (void)::crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(frame.data()), frame.size());
  (void)::crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(tag.data()), tag.size());
  ::sodium_memzero(&state, sizeof(state));
  return tag;
}

bool Seal::check_next(std::string_view frame, std::string_view tag) noexcept {
  const Tag expected = next(frame);
  return same_secret(std::string_view(expected.data(), expected.size()), tag);
}

}  // namespace atoll::cluster
