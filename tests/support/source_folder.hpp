// Where the sources are, for tests that read documents.
#pragma once

#include <filesystem>

#include "atoll/detail/namespace.hpp"

namespace atoll::test {

/// Not by __FILE__: what a compiler cache has kept was compiled in another folder, perhaps.
[[nodiscard]] std::filesystem::path source_folder();

}  // namespace atoll::test
