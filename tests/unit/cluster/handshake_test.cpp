// The handshake and the seals, byte by byte: no sockets.
#include "cluster/handshake.hpp"

#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>

#include "base/random.hpp"
#include "cluster/control.hpp"

namespace atoll::cluster {
namespace {

Key key_of(std::uint8_t byte) {
  Key::Bytes bytes;
  bytes.fill(byte);
  return Key(bytes);
}

Nonce nonce_of(std::uint8_t byte) {
  Nonce nonce;
  nonce.fill(byte);
  return nonce;
}

const Key kRight = key_of(1), kWrong = key_of(2);

/// Both ends, and what went over the wire.
struct Meeting {
  explicit Meeting(const Key& node_key = kRight, const Key& master_key = kRight, std::uint8_t salt = 0)
      : node(Role::kNode, node_key, nonce_of(std::uint8_t(10 + salt))),
        master(Role::kMaster, master_key, nonce_of(std::uint8_t(20 + salt))) {}

  /// Passes messages to and fro until both are silent.
  void run() {
    while (true) {
      const std::string to_master = node.take_output();
      if (!to_master.empty()) master.feed(sent.emplace_back(to_master));
      const std::string to_node = master.take_output();
      if (!to_node.empty()) node.feed(sent.emplace_back(to_node));
      if (to_master.empty() && to_node.empty()) return;
    }
  }

  Handshake node, master;
  std::vector<std::string> sent;
};

std::string tag_text(Seal& seal, std::string_view frame) {
  const Seal::Tag tag = seal.next(frame);
  return {tag.data(), tag.size()};
}

TEST(Handshake, every_state_and_event_has_one_row_with_a_reason) {
  const TrustTable& table = trust_table();
  for (std::size_t s = 0; s < TrustTable::kStates; ++s) {
    for (std::size_t e = 0; e < TrustTable::kEvents; ++e) {
      const auto& cell = table.at(TrustState(s), TrustEvent(e));
      EXPECT_EQ(cell.rows, 1) << s << ' ' << e;
      EXPECT_NE(std::string(cell.why), "") << s << ' ' << e;
      // Trust comes of one event alone, and nothing leads out of a refusal.
      if (cell.next == TrustState::kTrusted) {
        EXPECT_EQ(TrustEvent(e), TrustEvent::kProof);
      }
      if (TrustState(s) == TrustState::kRefused) {
        EXPECT_EQ(cell.next, TrustState::kRefused);
      }
      // A refusal says nothing to who is refused.
      if (cell.next == TrustState::kRefused) {
        EXPECT_EQ(cell.action_count, 0);
      }
    }
  }
}

TEST(Handshake, the_right_key_leads_to_trust_and_to_the_same_seals) {
  Meeting meeting;
  meeting.run();
  ASSERT_TRUE(meeting.node.trusted());
  ASSERT_TRUE(meeting.master.trusted());
  ASSERT_EQ(meeting.sent.size(), 4u);
  EXPECT_EQ(meeting.sent[0].size(), kHelloBytes);
  EXPECT_EQ(meeting.sent[0].substr(0, 14), "Hatoll control");
  for (const int k : {1, 2, 3}) EXPECT_EQ(meeting.sent[k].size(), 33u);
  Seals node = meeting.node.seals(), master = meeting.master.seals();
  EXPECT_TRUE(master.in.check_next("frame", tag_text(node.out, "frame")));
  EXPECT_TRUE(node.in.check_next("frame", tag_text(master.out, "frame")));
}

TEST(Handshake, comes_through_byte_by_byte) {
  Meeting meeting;
  for (int round = 0; round < 4; ++round) {
    for (const char byte : meeting.node.take_output()) meeting.master.feed({&byte, 1});
    for (const char byte : meeting.master.take_output()) meeting.node.feed({&byte, 1});
  }
  EXPECT_TRUE(meeting.node.trusted() && meeting.master.trusted());
}

TEST(Handshake, the_bytes_are_as_documented) {
  Meeting meeting;
  meeting.run();
  std::string nonces(32, 10);
  nonces.append(32, 20);
  const auto hash = [&](char purpose) {
    std::string text("atoll control\x01\0", 15);
    text.append(1, purpose).append(nonces);
    EXPECT_EQ(text.size(), 80u);
    std::string result(32, '\0');
    crypto_generichash(reinterpret_cast<unsigned char*>(result.data()), 32,
                       reinterpret_cast<const unsigned char*>(text.data()), text.size(), kRight.bytes().data(), 32);
    return result;
  };
  EXPECT_EQ(meeting.sent[0], std::string("Hatoll control\x01\0", 16).append(nonces, 0, 32));
  EXPECT_EQ(meeting.sent[1], "C" + nonces.substr(32));
  EXPECT_EQ(meeting.sent[2], "P" + hash(1));
  EXPECT_EQ(meeting.sent[3], "P" + hash(2));
  Key::Bytes session;
  std::copy_n(hash(3).data(), 32, reinterpret_cast<char*>(session.data()));
  std::string text(9, '\0');  // from the node, number 0
  text.append("frame");
  Seal::Tag expected;
  crypto_generichash(reinterpret_cast<unsigned char*>(expected.data()), 32,
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), session.data(), 32);
  EXPECT_EQ(meeting.node.seals().out.next("frame"), expected);
}

TEST(Handshake, a_node_with_another_key_is_refused_and_told_nothing) {
  Meeting meeting(kWrong, kRight);
  meeting.run();
  EXPECT_TRUE(meeting.master.refused());
  EXPECT_EQ(std::string(meeting.master.why()), "it does not have the cluster key");
  EXPECT_EQ(meeting.sent.size(), 3u);  // no proof of the master
  meeting.node.end();
  EXPECT_EQ(std::string(meeting.node.why()), "it did not take our cluster key");
}

TEST(Handshake, a_master_without_the_key_is_refused_whatever_it_proves) {
  Meeting meeting;
  meeting.master.feed(meeting.node.take_output());
  meeting.node.feed(meeting.master.take_output());
  const std::string proof = meeting.node.take_output();
  for (const std::string& answer : {proof, std::string("P").append(32, '\0'), std::string("P").append(32, '\xff')}) {
    Handshake node(Role::kNode, kRight, nonce_of(10));
    (void)node.take_output();
    node.feed(std::string("C").append(32, 20));
    EXPECT_EQ(node.take_output(), proof);
    node.feed(answer);
    EXPECT_TRUE(node.refused());
    EXPECT_EQ(node.take_output(), "");
    EXPECT_EQ(std::string(node.why()), "it does not have our cluster key");
  }
}

TEST(Handshake, a_recorded_session_is_of_no_use) {
  Meeting recorded;
  recorded.run();
  // To the master: the same hello and proof, but its nonce is another.
  Handshake master(Role::kMaster, kRight, nonce_of(99));
  master.feed(recorded.sent[0]);
  master.feed(recorded.sent[2]);
  EXPECT_TRUE(master.refused());
  // To the node: the same challenge and proof, but its nonce is another.
  Handshake node(Role::kNode, kRight, nonce_of(98));
  node.feed(recorded.sent[1]);
  node.feed(recorded.sent[3]);
  EXPECT_TRUE(node.refused());
}

TEST(Handshake, what_comes_back_as_it_was_sent_proves_nothing) {
  Handshake node(Role::kNode, kRight, nonce_of(1));
  node.feed(node.take_output());  // its own hello
  EXPECT_TRUE(node.refused());
  // Its own nonce as the challenge, and its own proof as the master's.
  Handshake mirrored(Role::kNode, kRight, nonce_of(1));
  mirrored.feed("C" + mirrored.take_output().substr(16));
  mirrored.feed(mirrored.take_output());
  EXPECT_TRUE(mirrored.refused());
  // A master that is played against itself: no message of its own is one that it takes.
  Meeting meeting;
  meeting.run();
  Handshake master(Role::kMaster, kRight, nonce_of(20));
  master.feed(meeting.sent[0]);
  master.feed(meeting.sent[3]);  // the master's proof for exactly these nonces
  EXPECT_TRUE(master.refused());
  for (const int k : {1, 2, 3}) {
    Handshake fresh(Role::kMaster, kRight, nonce_of(20));
    fresh.feed(meeting.sent[k]);
    EXPECT_TRUE(fresh.refused()) << k;
    EXPECT_EQ(fresh.take_output(), "");
  }
}

TEST(Handshake, any_flipped_bit_is_refused) {
  Meeting whole;
  whole.run();
  for (std::size_t message = 0; message < whole.sent.size(); ++message) {
    for (std::size_t bit = 0; bit < 8 * whole.sent[message].size(); ++bit) {
      Meeting meeting;
      std::size_t k = 0;
      const auto pass = [&](Handshake& from, Handshake& to) {
        std::string bytes = from.take_output();
        if (bytes.empty()) return;
        if (k++ == message) bytes[bit / 8] = char(bytes[bit / 8] ^ (1 << (bit % 8)));
        to.feed(bytes);
      };
      for (int round = 0; round < 3; ++round) {
        pass(meeting.node, meeting.master);
        pass(meeting.master, meeting.node);
      }
      meeting.node.end();
      ASSERT_TRUE(meeting.node.refused()) << message << ' ' << bit;
      // The master may trust a node whose last answer from it was damaged; the node then goes.
      if (message < 3) {
        ASSERT_FALSE(meeting.master.trusted()) << message << ' ' << bit;
      }
    }
  }
}

TEST(Handshake, truncated_messages_lead_nowhere_and_longer_ones_are_refused) {
  Meeting whole;
  whole.run();
  for (std::size_t length = 0; length < kHelloBytes; ++length) {
    Handshake master(Role::kMaster, kRight, nonce_of(20));
    master.feed(whole.sent[0].substr(0, length));
    EXPECT_EQ(master.state(), TrustState::kAwaitHello);
    EXPECT_EQ(master.take_output(), "");
    master.end();
    EXPECT_EQ(std::string(master.why()), "it left without a hello");
  }
  for (const std::string& more : {std::string("x"), whole.sent[2], std::string(100'000, 'H')}) {
    Handshake master(Role::kMaster, kRight, nonce_of(20));
    master.feed(whole.sent[0] + more);
    EXPECT_TRUE(master.refused());
    EXPECT_EQ(master.take_output(), "");
  }
  Meeting late;
  late.run();
  late.master.feed("x");
  EXPECT_TRUE(late.master.refused());
}

TEST(Handshake, another_version_is_named) {
  std::string hello = Handshake(Role::kNode, kRight, nonce_of(1)).take_output();
  hello[14] = 2;
  Handshake master(Role::kMaster, kRight, nonce_of(2));
  master.feed(hello);
  EXPECT_NE(std::string(master.why()).find("another version"), std::string::npos);
}

TEST(Handshake, random_bytes_are_never_trusted) {
  base::Random random(7);
  for (int round = 0; round < 20'000; ++round) {
    Handshake handshake(round % 2 == 0 ? Role::kNode : Role::kMaster, kRight, nonce_of(3));
    for (int piece = 0; piece < 3; ++piece) {
      std::string bytes(random.below(60), '\0');
      for (char& byte : bytes) byte = char(random.next());
      if (!bytes.empty() && random.chance(0.8)) bytes[0] = "HCP"[random.below(3)];
      handshake.feed(bytes);
      ASSERT_FALSE(handshake.trusted());
      ASSERT_LE(handshake.take_output().size(), kHelloBytes + 33);
    }
  }
}

// ---- sealed frames ----

/// The two ends of a sealed stream.
struct Stream {
  Stream() : out(kRight, Role::kNode) { decoder.seal(Seal(kRight, Role::kNode)); }
  std::string sealed(const Json& body) {
    const std::string bytes = encode_frame(body);
    return bytes + tag_text(out, bytes);
  }
  Decoded feed(const std::string& bytes) {
    decoder.feed(bytes, {});
    return decoder.next(frame);
  }
  Seal out;
  FrameDecoder decoder;
  Frame frame;
};

TEST(SealedFrames, come_through_in_pieces) {
  Stream stream;
  std::string bytes = stream.sealed({{"op", "a"}});
  bytes += stream.sealed({{"op", "b"}});
  std::vector<std::string> ops;
  for (const char byte : bytes) {
    if (stream.feed(std::string(1, byte)) == Decoded::kFrame) ops.push_back(stream.frame.op());
  }
  EXPECT_EQ(ops, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(stream.decoder.midway());
}

TEST(SealedFrames, any_flipped_bit_makes_the_stream_bad) {
  const std::string good = Stream().sealed({{"op", "publish"}, {"name", "root"}, {"address", 4096}});
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Stream stream;
    std::string bytes = good;
    bytes[bit / 8] = char(bytes[bit / 8] ^ (1 << (bit % 8)));
    Decoded decoded = stream.feed(bytes);
    // A length that has grown waits for more, and is found out when that comes.
    if (decoded == Decoded::kNeedMore) decoded = stream.feed(std::string(kMaxFrameBytes, 'x'));
    ASSERT_EQ(decoded, Decoded::kBad) << bit;
  }
}

TEST(SealedFrames, that_are_left_out_repeated_or_moved_are_bad) {
  Stream sender;
  const std::string a = sender.sealed({{"op", "a"}}), b = sender.sealed({{"op", "b"}});
  {
    Stream stream;
    EXPECT_EQ(stream.feed(b), Decoded::kBad);
    EXPECT_EQ(stream.feed(a), Decoded::kBad);  // for ever
  }
  Stream stream;
  EXPECT_EQ(stream.feed(a), Decoded::kFrame);
  EXPECT_EQ(stream.feed(a), Decoded::kBad);
}

TEST(SealedFrames, of_the_other_direction_or_another_session_are_bad) {
  const std::string bytes = encode_frame({{"op", "a"}});
  Seal back(kRight, Role::kMaster), other(kWrong, Role::kNode);
  EXPECT_EQ(Stream().feed(bytes + tag_text(back, bytes)), Decoded::kBad);
  EXPECT_EQ(Stream().feed(bytes + tag_text(other, bytes)), Decoded::kBad);
  EXPECT_EQ(Stream().feed(std::string(bytes).append(32, '\0')), Decoded::kBad);
  EXPECT_EQ(Stream().feed(bytes), Decoded::kNeedMore);  // without its tag it is no frame
}

TEST(SealedFrames, what_is_no_json_is_not_even_parsed) {
  Stream stream;
  std::string junk("\x08\0\0\0{\"op\":[[", 12);
  EXPECT_EQ(stream.feed(junk.append(32, 'x')), Decoded::kBad);
  EXPECT_NE(stream.decoder.why().find("tag is wrong"), std::string::npos);
}

}  // namespace
}  // namespace atoll::cluster
