// The part of docs/protocol.md that is made from the code.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <string>
#include <string_view>

namespace atoll::explorer {

inline constexpr std::string_view kGeneratedBegin = "<!-- begin generated -->";
inline constexpr std::string_view kGeneratedEnd = "<!-- end generated -->";

/// The kinds of message, both tables and both state diagrams, as markdown; what stands between the two markers.
[[nodiscard]] std::string protocol_tables();

}  // namespace atoll::explorer
