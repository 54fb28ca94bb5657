// `atoll key`: makes the key of a cluster.
#include "cluster/key.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "commands.hpp"

namespace atoll::tools {

void add_key(CLI::App& app) {
  auto out = std::make_shared<std::string>();
  CLI::App* key = app.add_subcommand("key", "Make a cluster key, which nodes of other hosts need to join");
  key->add_option("--out", *out, "Write it to this new file, for its owner alone; without, print it")
      ->type_name("FILE");
  key->footer(
      "Who has the key can join, and then read and write the memory of the cluster: give it to nobody else.\n"
      "A file that is there already is not overwritten.\n\n"
      "Examples:\n"
      "  atoll key --out ~/cluster.key\n"
      "  scp ~/cluster.key node2:         and ATOLL_KEY_FILE=~/cluster.key for the master and all nodes");
  key->callback([out] {
    const cluster::Key fresh = cluster::Key::generate();
    if (out->empty()) {
      fmt::print("{}\n", fresh.reveal());
    } else {
      fresh.write_new_file(*out);
    }
  });
}

}  // namespace atoll::tools
