// What each channel of a transport does between two nodes of this host, in a second or two: for `atoll doctor`.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace atoll::bench {

struct ChannelFigures {
  double control_us = 0;          // a message of 64 bytes there and back
  double control_per_s = 0;       // messages each way, 16 at a time
  double data_us = 0;             // a message there, a line of 512 bytes with its notice back
  double data_mb_per_s = 0;       // of such lines, 16 at a time
  double stream_4k_mb_per_s = 0;  // of lines that are asked for in runs
  double stream_64k_mb_per_s = 0;
};
void to_json(nlohmann::json& out, const ChannelFigures& figures);
void from_json(const nlohmann::json& in, ChannelFigures& figures);

/// Lets two nodes on this host talk. Takes as long as they do: who cannot wait ends this process. Throws Error.
[[nodiscard]] ChannelFigures measure_channels(const std::string& transport, const std::string& address);
/// One node of it.
void run_channels_node();

}  // namespace atoll::bench
