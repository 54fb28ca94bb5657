// What the nodes of the migrating engine say to each other.
#pragma once

#include "bench/tpcc/migrating_core.hpp"

namespace atoll::bench::tpcc::migrating {

inline constexpr std::uint32_t kAnswerBytes = 16 << 10;
inline constexpr std::uint32_t kReplyBytes = 16;  // without the row
inline constexpr std::uint32_t kMostItems = 64;   // of a question

/// A message: its head, then for each item this and the key, rounded up to 8 bytes.
struct Core::QuestionHead {
  Question kind = Question::kWant;
  std::uint32_t count = 0;
  std::uint64_t time = 0;  // of the transaction
};
struct Core::QuestionItem {
  std::uint16_t table = 0;
  bool exclusive = false;     // kWant
  bool done = false;          // kSettle: the asker owns it now
  std::uint64_t gave_up = 0;  // kSettle: bits of the nodes that have given it up
};

/// Of an answer: for each item this and room for the row, rounded up to 8 bytes, in the order of the question.
struct Core::Reply {
  enum class Outcome : std::uint8_t {
    kRefused,
    kOwned,      // it is the asker's
    kShared,     // kWant: the asker may read it. kGiveUp: it was only read here
    kAskOthers,  // they have it; the home keeps it locked until it hears how that went
  };
  Outcome outcome = Outcome::kRefused;
  bool has_row = false;  // if it is present
  bool present = false;
  std::uint64_t others = 0;
};

inline std::uint32_t TableData::answer_bytes() const noexcept {
  return kReplyBytes + round_up_to_8(row_bytes);
}

}  // namespace atoll::bench::tpcc::migrating
