// Places where a laboratory build interferes: mistakes that are made on purpose, and points at which another thread may
// run, so that the tests can be tested (docs/testing.md). In every other build they are nothing. Not part of the API.
#pragma once

#ifndef ATOLL_LAB  // such a build has its own, from src/lab/lab.hpp

#include <sched.h>

#define ATOLL_FAULT(name) false
#define ATOLL_POINT() ((void)0)
#define ATOLL_GIVE_WAY() ((void)::sched_yield())

#endif
