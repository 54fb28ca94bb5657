// Sessions of the key-value server on a map of a cluster in this process.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kv/session.hpp"
#include "support/local_cluster.hpp"

namespace atoll::kv {

/// A client, without a socket.
class Client {
 public:
  explicit Client(Service& service) : worker_(service), batch_(worker_), session_(worker_) {}

  /// What is answered to these bytes.
  std::string receive(std::string_view bytes) {
    session_.in().append(bytes);
    while (true) {
      const Session::Progress progress = session_.advance(batch_);
      batch_.run();
      if (progress == Session::Progress::kIdle || progress == Session::Progress::kFull) break;
    }
    std::string answer(session_.out().view());
    session_.out().consume(answer.size());
    return answer;
  }
  std::string ask(std::vector<std::string> words) {
    std::string request = fmt::format("*{}\r\n", words.size());
    for (const std::string& word : words) request += fmt::format("${}\r\n{}\r\n", word.size(), word);
    return receive(request);
  }
  /// A line of words.
  std::string say(const std::string& line) { return receive(line + "\r\n"); }
  Session& session() { return session_; }
  Worker& worker() { return worker_; }

 private:
  Worker worker_;
  Batch batch_;
  Session session_;
};

class SessionTest : public ::testing::Test {
 protected:
  static Options options() {
    Options options = test::LocalCluster::small_options();
    options.memory_bytes = 32 << 20;
    options.cache_bytes = 4 << 20;
    return options;
  }
  ServiceOptions service_options() {
    ServiceOptions made;
    made.clock = [this] { return now_; };
    made.limits.output_limit_bytes = 8 << 20;
    return made;
  }

  std::int64_t now_ = 1'700'000'000'000;
  test::LocalCluster cluster_{1, options()};
  HashMap map_{cluster_[0], "kv"};
  Service service_{cluster_[0], map_, service_options()};
  Client client_{service_};
};

}  // namespace atoll::kv
