// Times as commands take them: EX 10, PXAT 1700000000000, EXPIRE key 10.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "kv/command.hpp"

namespace atoll::kv {

struct TimeForm {
  bool milliseconds = false;  // else seconds
  bool absolute = false;      // else from now on
  bool operator==(const TimeForm&) const = default;
};

/// The time in milliseconds of Unix time; none when it does not fit.
[[nodiscard]] inline std::optional<std::int64_t> to_time(std::int64_t number, TimeForm form,
                                                         std::int64_t now) noexcept {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max(),
                         kLeast = std::numeric_limits<std::int64_t>::min();
  if (!form.milliseconds) {
    if (number > kMost / 1000 || number < kLeast / 1000) return std::nullopt;
    number *= 1000;
  }
  if (!form.absolute) {
    if (number > kMost - now) return std::nullopt;
    number += now;
  }
  return number;
}

/// The time of an option such as EX. None: the client has been told what is wrong.
[[nodiscard]] std::optional<std::int64_t> parse_expiry(Call& call, std::string_view text, TimeForm form);

/// Whether this is one of EX, PX, EXAT, PXAT.
[[nodiscard]] inline std::optional<TimeForm> time_option(std::string_view word) noexcept {
  if (is_word(word, "EX")) return TimeForm{false, false};
  if (is_word(word, "PX")) return TimeForm{true, false};
  if (is_word(word, "EXAT")) return TimeForm{false, true};
  if (is_word(word, "PXAT")) return TimeForm{true, true};
  return std::nullopt;
}

}  // namespace atoll::kv
