// The master's TCP port as the network sees it: honest nodes, and everybody else.
#include "cluster/tcp.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <future>
#include <list>
#include <mutex>

#include "base/random.hpp"
#include "cluster/gate.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kLong = 30s;

Key key_of(std::uint8_t byte) {
  Key::Bytes bytes;
  bytes.fill(byte);
  return Key(bytes);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TcpAddress, is_parsed) {
  const auto round_trip = [](const char* text) { return parse_tcp_address(text, "X").text(); };
  for (const char* text : {"host:1", "127.0.0.1:65535", "[::1]:7470", "a-b.example.org:0"}) {
    EXPECT_EQ(round_trip(text), text);
    EXPECT_TRUE(is_tcp_address(text));
  }
  EXPECT_EQ(parse_tcp_address("[fd00::1]:80", "X").host, "fd00::1");
  EXPECT_FALSE(is_tcp_address("atoll-0-123-00ff"));
  EXPECT_FALSE(is_tcp_address(make_socket_name()));
}

TEST(TcpAddress, errors_say_what_is_wrong) {
  const auto why = [](const std::string& text) { return error_of([&] { (void)parse_tcp_address(text, "--listen"); }); };
  EXPECT_THAT(why("127.0.0.1"), HasSubstr("--listen=\"127.0.0.1\": there is no port"));
  EXPECT_THAT(why(":80"), HasSubstr("there is no host"));
  EXPECT_THAT(why("[]:80"), HasSubstr("there is no host"));
  EXPECT_THAT(why("::1:80"), HasSubstr("in brackets"));
  EXPECT_THAT(why("[::1:80"), HasSubstr("bracket is not closed"));
  EXPECT_THAT(why("[::1]x:80"), HasSubstr("bracket is not closed"));
  for (const char* text : {"h:", "h:x", "h:65536", "h:-1", "h: 1", "h:1 "})
    EXPECT_THAT(why(text), HasSubstr("the port"));
  EXPECT_THAT(why("a b:80"), HasSubstr("no name of a host"));
  EXPECT_THAT(why(std::string(300, 'h') + ":80"), HasSubstr("too long"));
}

TEST(AbstractSockets, have_no_colon_in_their_names) {
  EXPECT_THAT(error_of([] { (void)listen_abstract("a:1"); }), HasSubstr("without a colon"));
  EXPECT_EQ(make_socket_name().find(':'), std::string::npos);
}

TEST(Tcp, binds_to_exactly_what_it_is_told) {
  const TcpListener first = listen_tcp({"127.0.0.2", 0});
  EXPECT_EQ(first.address.host, "127.0.0.2");
  EXPECT_NE(first.address.port, 0);
  const std::string taken = error_of([&] { (void)listen_tcp(first.address); });
  EXPECT_THAT(taken, HasSubstr("cannot listen at " + first.address.text()));
  EXPECT_THAT(taken, HasSubstr("in use"));
  // Not at another address of this host.
  const auto soon = Clock::now() + 200ms;
  EXPECT_THAT(error_of([&] {
                (void)connect_trusted({"127.0.0.1", first.address.port}, key_of(1), soon);
              }),
              HasSubstr("no master answers"));
  EXPECT_THAT(error_of([] { (void)listen_tcp({"198.51.100.1", 0}); }), HasSubstr("cannot listen"));
  EXPECT_THAT(error_of([] { (void)listen_tcp({"no.such.host.invalid", 0}); }), HasSubstr("there is no host"));
}

TEST(Tcp, listens_at_addresses_of_ipv6) {
  const base::Fd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  if (!probe.valid() || ::bind(probe.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof(loopback)) != 0) {
    GTEST_SKIP() << "this host has no IPv6";
  }
  const TcpListener listener = listen_tcp(parse_tcp_address("[::1]:0", "X"));
  EXPECT_EQ(listener.address.text(), "[::1]:" + std::to_string(listener.address.port));
  // Everywhere in IPv6 is nowhere in IPv4.
  const TcpListener all = listen_tcp({"::", 0});
  EXPECT_THAT(error_of([&] {
                (void)connect_trusted({"127.0.0.1", all.address.port}, key_of(1), Clock::now() + 100ms);
              }),
              HasSubstr("no master answers"));
  EXPECT_THAT(error_of([&] {
                (void)connect_trusted({"::1", all.address.port}, key_of(1), Clock::now() + 100ms);
              }),
              HasSubstr("did not finish the handshake"));
}

/// A gate in a thread of its own, as the master drives it.
class Porter {
 public:
  explicit Porter(const Key& key)
      : gate_({"127.0.0.1", 0}, key), address_(gate_.address()), thread_([this] { run(); }) {}
  ~Porter() {
    stop_ = true;
    thread_.join();
  }
  [[nodiscard]] const TcpAddress& address() const { return address_; }
  [[nodiscard]] std::size_t most_half_open() const { return most_; }
  [[nodiscard]] int admitted() const { return admitted_; }

 private:
  void run() {
    std::list<Connection> inside;
    while (!stop_) {
      std::vector<pollfd> polls;
      auto until = Clock::now() + 5ms;
      gate_.prepare(polls, until);
      (void)::poll(polls.data(), polls.size(), poll_timeout(until));
      for (Gate::Admitted& each : gate_.handle(polls, Clock::now())) {
        inside.emplace_back(std::move(each.socket)).seal(each.seals);
        ++admitted_;
      }
      most_ = std::max(most_.load(), gate_.half_open());
      // A word for a word, to see that the seals fit.
      Frame frame;
      for (Connection& connection : inside) {
        (void)connection.receive();
        if (connection.next(frame) == Decoded::kFrame) connection.send({{"op", "welcome"}});
      }
    }
  }

  Gate gate_;
  const TcpAddress address_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> most_{0};
  std::atomic<int> admitted_{0};
  std::thread thread_;
};

/// Keeps what is logged; may be read while others log.
class TextSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  [[nodiscard]] std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    text_.append(message.payload.data(), message.payload.size()).append("\n");
  }
  void flush_() override {}
  std::string text_;
};

/// What is logged while it lives.
class LogCapture {
 public:
  LogCapture() : before_(spdlog::default_logger()), sink_(std::make_shared<TextSink>()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  [[nodiscard]] std::string text() const { return sink_->text(); }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<TextSink> sink_;
};

/// A plain connection, without a word said.
base::Fd knock(const TcpAddress& address) {
  base::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << std::strerror(errno);
  return socket;
}

/// All that comes until the other side closes.
std::string read_to_end(const base::Fd& socket) {
  std::string all;
  char buffer[256];
  for (ssize_t got; (got = ::recv(socket.get(), buffer, sizeof(buffer), 0)) > 0;) all.append(buffer, std::size_t(got));
  return all;
}

void join_honestly(const TcpAddress& address) {
  Connection connection = connect_trusted(address, key_of(1), Clock::now() + kLong);
  connection.send({{"op", "hello"}});
  Frame frame;
  ASSERT_TRUE(await_frame(connection, frame, Clock::now() + kLong).ok()) << connection.why();
  EXPECT_EQ(frame.op(), "welcome");
}

TEST(Gate, lets_in_who_has_the_key) {
  Porter porter(key_of(1));
  join_honestly(porter.address());
  join_honestly({"localhost", porter.address().port});
  EXPECT_EQ(porter.admitted(), 2);
}

TEST(Gate, refuses_another_key_and_says_so_on_both_sides) {
  LogCapture log;
  Porter porter(key_of(1));
  const std::string why = error_of([&] { (void)connect_trusted(porter.address(), key_of(2), Clock::now() + kLong); });
  EXPECT_THAT(why, HasSubstr("cannot join at " + porter.address().text() + ": it did not take our cluster key"));
  EXPECT_THAT(log.text(), HasSubstr("refused 127.0.0.1:"));
  EXPECT_THAT(log.text(), HasSubstr("it does not have the cluster key"));
  EXPECT_EQ(porter.admitted(), 0);
}

TEST(Gate, tells_a_stranger_nothing) {
  Porter porter(key_of(1));
  for (const std::string& words : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01"),
                                   std::string(1000, 'H'), std::string(33, 'P')}) {
    const base::Fd socket = knock(porter.address());
    (void)::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
    EXPECT_EQ(read_to_end(socket), "");
  }
  join_honestly(porter.address());
}

TEST(Gate, hears_nobody_longer_than_the_time_it_gives) {
  LogCapture log;
  Porter porter(key_of(1));
  const auto begin = Clock::now();
  const base::Fd silent = knock(porter.address()), slow = knock(porter.address());
  auto dripping = std::async(std::launch::async, [&] {
    const Key key = key_of(1);
    for (const char byte : Handshake(Role::kNode, key, make_nonce()).take_output()) {
      if (::send(slow.get(), &byte, 1, MSG_NOSIGNAL) != 1) return;
      std::this_thread::sleep_for(250ms);
    }
  });
  EXPECT_EQ(read_to_end(silent), "");
  EXPECT_EQ(read_to_end(slow), "");
  EXPECT_GE(Clock::now() - begin, Gate::kProofTime);
  dripping.get();
  EXPECT_THAT(log.text(), HasSubstr("it did not prove the cluster key in time"));
}

TEST(Gate, one_too_many_drops_the_oldest) {
  LogCapture log;
  Porter porter(key_of(1));
  std::deque<base::Fd> open;
  for (std::size_t k = 0; k <= Gate::kMaxHalfOpen; ++k) open.push_back(knock(porter.address()));
  EXPECT_EQ(read_to_end(open.front()), "");
  EXPECT_THAT(log.text(), HasSubstr("it is the oldest"));
}

TEST(Gate, thousands_of_half_open_connections_keep_nobody_out) {
  LogCapture log;
  Porter porter(key_of(1));
  std::atomic<bool> stop{false};
  auto flood = std::async(std::launch::async, [&] {
    std::deque<base::Fd> open;
    int count = 0;
    const auto end = Clock::now() + kLong;
    for (; (!stop && Clock::now() < end) || count < 3000; ++count) {
      open.push_back(knock(porter.address()));
      if (open.size() > 400) open.pop_front();
    }
    return count;
  });
  for (int k = 0; k < 10; ++k) join_honestly(porter.address());
  stop = true;
  EXPECT_GE(flood.get(), 3000);
  EXPECT_EQ(porter.admitted(), 10);
  EXPECT_LE(porter.most_half_open(), Gate::kMaxHalfOpen);
  const std::string text = log.text();
  EXPECT_THAT(text, HasSubstr("refused 127.0.0.1:"));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 200);  // a line a second, not thousands
}

TEST(Gate, port_scans_and_random_bytes_keep_nobody_out) {
  Porter porter(key_of(1));
  std::atomic<bool> stop{false};
  auto noise = std::async(std::launch::async, [&] {
    base::Random random(3);
    const auto end = Clock::now() + kLong;
    for (int k = 0; (!stop && Clock::now() < end) || k < 2000; ++k) {
      const base::Fd socket = knock(porter.address());
      if (k % 2 == 0) continue;  // a scan: connect and close
      std::string bytes(random.below(200), '\0');
      for (char& byte : bytes) byte = char(random.next());
      (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  });
  for (int k = 0; k < 10; ++k) join_honestly(porter.address());
  stop = true;
  noise.get();
  EXPECT_EQ(porter.admitted(), 10);
}

TEST(ConnectTrusted, waits_for_a_master_that_comes_up_later) {
  TcpAddress address;
  {
    const TcpListener listener = listen_tcp({"127.0.0.1", 0});
    address = listener.address;
  }
  auto waiting =
      std::async(std::launch::async, [&] { (void)connect_trusted(address, key_of(1), Clock::now() + kLong); });
  EXPECT_EQ(waiting.wait_for(200ms), std::future_status::timeout);
  const Key key = key_of(1);
  Gate gate(address, key);
  while (waiting.wait_for(0ms) != std::future_status::ready) {
    std::vector<pollfd> polls;
    auto until = Clock::now() + 20ms;
    gate.prepare(polls, until);
    (void)::poll(polls.data(), polls.size(), poll_timeout(until));
    (void)gate.handle(polls, Clock::now());
  }
  waiting.get();
}

TEST(ConnectTrusted, what_is_no_master_is_named) {
  const TcpListener listener = listen_tcp({"127.0.0.1", 0});
  auto banner = std::async(std::launch::async, [&] {
    pollfd entry{listener.socket.get(), POLLIN, 0};
    (void)::poll(&entry, 1, 10'000);
    const base::Fd socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    (void)::send(socket.get(), "SSH-2.0-x\r\n", 11, MSG_NOSIGNAL);
    (void)read_to_end(socket);
  });
  EXPECT_THAT(error_of([&] { (void)connect_trusted(listener.address, key_of(1), Clock::now() + kLong); }),
              HasSubstr("it is no Atoll master"));
  banner.get();
  // One that takes the connection and says nothing is waited for, but not for ever.
  EXPECT_THAT(error_of([&] { (void)connect_trusted(listener.address, key_of(1), Clock::now() + 100ms); }),
              HasSubstr("did not finish the handshake in time"));
  EXPECT_THAT(error_of([] {
                (void)connect_trusted({"no.such.host.invalid", 1}, key_of(1), Clock::now() + 100ms);
              }),
              HasSubstr("there is no host"));
}

TEST(RefusalLog, one_line_a_second_with_a_count) {
  LogCapture capture;
  RefusalLog log;
  const auto start = Clock::now();
  for (int k = 0; k < 1000; ++k) log.note("10.0.0.1:" + std::to_string(k), "no key", start + k * 1ms);
  EXPECT_THAT(capture.text(), HasSubstr("refused 10.0.0.1:0: no key"));
  ASSERT_TRUE(log.due().has_value());
  log.tick(start + 999ms);
  EXPECT_EQ(capture.text().find("more"), std::string::npos);
  log.tick(*log.due());
  EXPECT_THAT(capture.text(), HasSubstr("refused 999 more, the last of them 10.0.0.1:999: no key"));
  EXPECT_FALSE(log.due().has_value());
  {
    RefusalLog ended = log;
    ended.note("10.0.0.2:1", "no key", start + 1500ms);
    EXPECT_TRUE(ended.due().has_value());
    EXPECT_EQ(capture.text().find("10.0.0.2"), std::string::npos);
  }
  EXPECT_THAT(capture.text(), HasSubstr("refused 1 more, the last of them 10.0.0.2:1: no key"));
}

}  // namespace
}  // namespace atoll::cluster
