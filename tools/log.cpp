// `atoll log`: what a node's log and checkpoint hold.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "atoll/address.hpp"
#include "base/units.hpp"
#include "commands.hpp"
#include "log/checkpoint_format.hpp"
#include "log/log.hpp"
#include "log/reader.hpp"
#include "storage/disk.hpp"

namespace atoll::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string file;
  bool json = false;
  bool summary = false;
  bool all = false;
};

const char* mode_text(LogMode mode) {
  switch (mode) {
    case LogMode::kOff: return "off";
    case LogMode::kProcess: return "process";
    case LogMode::kPower: return "power";
  }
  return "?";
}

Json to_json(const log::Record& record) {
  const log::RecordHead& head = record.head;
  return {{"sequence", record.sequence}, {"type", log::to_string(head.type)},
          {"address", head.address},     {"number", head.number},
          {"node", head.node},           {"epoch", head.epoch},
          {"flags", head.flags},         {"bytes", record.payload.size()}};
}

Json to_json(const log::ReadReport& report, log::Sequence highest) {
  return {{"node", report.node},
          {"generation", report.generation},
          {"mode", mode_text(report.mode)},
          {"blocks", report.blocks},
          {"records", report.records},
          {"bytes", report.bytes},
          {"torn", report.torn},
          {"truncated", report.truncated},
          {"gap", report.gap},
          {"dropped", report.dropped},
          {"highest", highest}};
}

std::string text_of(const log::ReadReport& report, log::Sequence highest) {
  std::string text = fmt::format("log of node {}, generation {}, mode {}: {} records ({}) in {} blocks, highest {}",
                                 report.node, report.generation, mode_text(report.mode), report.records,
                                 base::format_bytes(report.bytes), report.blocks, highest);
  if (report.truncated != 0) text += fmt::format("; {} no longer needed", report.truncated);
  if (report.torn != 0) text += fmt::format("; {} torn", report.torn);
  if (report.dropped != 0) text += fmt::format("; {} do not count, because {} is missing", report.dropped, report.gap);
  return text;
}

void dump_log(storage::File& file, const Arguments& arguments) {
  // As a recovery would read it, unless all is asked for.
  log::LoadedLog loaded = log::read_log(file, {}).value();
  if (loaded.report().mode == LogMode::kPower && !arguments.all) loaded = log::read_log(file, {true}).value();
  if (arguments.summary) {
    if (arguments.json) {
      fmt::print("{}\n", to_json(loaded.report(), loaded.highest()).dump());
    } else {
      fmt::print("{}\n", text_of(loaded.report(), loaded.highest()));
    }
    return;
  }
  for (std::size_t k = 0; k < loaded.size(); ++k) {
    fmt::print("{}\n", arguments.json ? to_json(loaded[k]).dump() : log::to_string(loaded[k]));
  }
}

void dump_checkpoint(const log::CheckpointHeader& header, const Arguments& arguments) {
  if (arguments.json) {
    const Json json = {{"node", header.node},
                       {"generation", header.generation},
                       {"redo_from", header.redo_from},
                       {"memory_bytes", header.memory_bytes},
                       {"line_bytes", header.line_bytes},
                       {"blob_bytes", header.blob_bytes}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("checkpoint of node {}, generation {}: {} in lines of {} bytes, {} of blobs; redo from {}\n", header.node,
             header.generation, base::format_bytes(header.memory_bytes), header.line_bytes,
             base::format_bytes(header.blob_bytes), header.redo_from);
}

/// What a file of a node's or of a cluster's folder is that this command does not print; nothing: it may be one that it
/// does. By its name, for most have no marks of their own.
const char* what_else(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return "a folder";
  if (name == log::kMemoryName) return "the memory of a checkpoint";
  if (name == log::kLinesName) return "what a checkpoint says of lines";
  if (name == log::kBlobNames[0] || name == log::kBlobNames[1]) return "the small parts of a checkpoint";
  if (name == storage::kLockName) return "who uses the folder";
  if (name == log::kNewLogName) return "a log that is being made";
  if (name == "cluster.json") return "what the cluster is";
  return nullptr;
}

void dump(const Arguments& arguments) {
  if (const char* const what = what_else(arguments.file)) {
    throw Error(
        fmt::format("{} is {}: dump log.N, or checkpoint, in the folder of a node (DIR/node-K)", arguments.file, what));
  }
  const auto file = storage::open_file(arguments.file);
  if (log::looks_like_log(*file)) {
    try {
      dump_log(*file, arguments);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", arguments.file, error.what()), error.code());
    }
    return;
  }
  const auto header = log::read_checkpoint_header(*file);
  if (!header.ok() || !*header) {
    throw Error(
        fmt::format("{} is no log and no checkpoint that was finished: dump log.N, or checkpoint, in the folder "
                    "of a node (DIR/node-K)",
                    arguments.file));
  }
  dump_checkpoint(**header, arguments);
}

}  // namespace

void add_log(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* log = app.add_subcommand("log", "Look at the log and the checkpoint of a node");
  log->require_subcommand(1);
  CLI::App* one = log->add_subcommand("dump", "Print the records of a log, or what a checkpoint is");
  one->add_option("file", arguments->file, "log.N or checkpoint, in the directory of the node's log")
      ->required()
      ->type_name("FILE");
  one->add_flag("--json", arguments->json, "One JSON object for each line");
  one->add_flag("--summary", arguments->summary, "How much there is, instead of what");
  one->add_flag("--all", arguments->all, "Records behind a gap too, which a recovery in mode power does not use");
  one->footer(
      "A record is: sequence, type, address, what the type says, epoch. The node may run: what it logs meanwhile is\n"
      "shown or not. docs/formats.md has the bytes.\n\n"
      "Examples:\n"
      "  atoll log dump /var/lib/atoll/0/log.1\n"
      "  atoll log dump --summary /var/lib/atoll/0/log.1\n"
      "  atoll log dump --json /var/lib/atoll/0/log.1 | jq 'select(.type == \"grant\")'");
  one->callback([arguments] { dump(*arguments); });
}

}  // namespace atoll::tools
