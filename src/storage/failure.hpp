// What went wrong with a file, as a Status that says where.
#pragma once

#include <string_view>

#include "atoll/status.hpp"

namespace atoll::storage {

/// "cannot sync log.3: Input/output error". kStorageFull for ENOSPC and EDQUOT, else kStorage. The text of a Status is
/// static: texts are kept for ever, each once, and beyond some hundred of them a shorter one is used.
[[nodiscard]] Status failure(const char* what, std::string_view where, int error) noexcept;
/// The same where no system call has failed: "log.3 is no log: its header is damaged".
[[nodiscard]] Status damage(std::string_view where, std::string_view what) noexcept;

}  // namespace atoll::storage
