// What can be chosen when a node joins. Every field has a sound default; the launcher and the
// environment (ATOLL_MEMORY and so on) fill them in, a program may override them.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace atoll {

/// When a write of this node is complete for the thread that issued it. See docs/memory-model.md.
enum class Consistency : std::uint8_t {
  kDefault,  // per call: what the node was joined with
  kPso,      // writes return at once and may pass each other
  kTso,      // a write that misses is waited for: writes become visible in program order
  kSc,       // and every write is followed by a full fence
};

/// What the log of a node survives. See docs/formats.md.
enum class LogMode : std::uint8_t {
  kOff,      // nothing is logged
  kProcess,  // the end of the process, however sudden
  kPower,    // and the end of the machine
};

struct Options {
  std::uint64_t memory_bytes = 256ull << 20;  // brought into the global memory by this node
  std::uint64_t cache_bytes = 64ull << 20;    // for copies of other nodes' lines
  std::uint64_t file_space_bytes = 0;         // address space for files that this node opens (File); 0: it opens none
  std::uint64_t file_memory_bytes = 64ull << 20;  // and how much memory their pages may take here
  std::uint32_t line_bytes = 512;                 // 64 to 4096, a power of two; the same on every node
  Consistency consistency = Consistency::kPso;
  std::uint32_t outstanding_writes = 512;  // asynchronous writes under way before a writer waits
  std::uint32_t spin_ns = 1000;            // how a thread waits: spin this long,
  std::uint32_t yield_us = 100;            // then yield the CPU this long, then sleep
  std::uint32_t read_ahead_lines = 128;    // the most that a sequential reader fetches ahead; 0: none
  std::uint32_t evict_below_percent = 30;  // when less of the cache is free, lines that nobody uses are given back,
  std::uint32_t evict_until_percent = 50;  // until so much is
  bool write_at_home = true;               // small writes of lines that are not here are sent to the home
  bool read_in_place = true;               // read lines that are not here at their home, where memory can be reached
  std::string transport = "auto";  // how nodes reach each other: auto, shm, tcp, verbs, or a provider of libfabric
  std::string address;             // of this host, for transports between hosts; empty: the one that reaches the master
  LogMode log = LogMode::kOff;
  std::string log_dir;                     // the node's own directory for log and checkpoint
  std::uint64_t log_bytes = 256ull << 20;  // how long the log may get before a checkpoint must have freed some of it
  bool recover = false;                    // the log in log_dir is that of this node's former process: go on from it
  bool recover_after_reboot = false;       // with `recover`, in mode process: also where the machine was started since
  /// A logged cluster: how long those who wait for a node that died wait for it to be back before they get an error.
  std::chrono::milliseconds recovery_wait{60'000};
  std::chrono::milliseconds join_timeout{30'000};
  std::chrono::milliseconds death_grace{1'000};  // a wait that a dead node may concern ends after this

  /// Defaults, overridden by the ATOLL_* environment that `atoll run` sets. Throws Error on a bad value.
  static Options from_environment();
};

}  // namespace atoll
