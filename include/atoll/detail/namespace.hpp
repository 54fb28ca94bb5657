// Why `atoll::` can be written at all: the C library has a function of that name.
//
// stdlib.h declares ::atoll(const char*), and a namespace and a function of one name cannot stand in one
// scope. So the namespace is atoll_v1, and a macro lets everybody write `atoll`. The C library's header comes
// first, so that its own declaration keeps its name; what is lost is calling atoll() after this header
// (use strtoll, std::stoll or std::from_chars). The other ways are worse: a compiler flag that every user must
// pass, or another name for the namespace than for the project.
#pragma once

#include <cstdlib>

#ifdef ATOLL_LAB
#define atoll atoll_lab  // see detail/lab.hpp
#else
#define atoll atoll_v1
#endif
