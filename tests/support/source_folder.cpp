#include "support/source_folder.hpp"

namespace atoll::test {

std::filesystem::path source_folder() {
  return ATOLL_SOURCE_FOLDER;
}

}  // namespace atoll::test
