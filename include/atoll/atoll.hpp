// Atoll: the memory of many machines as one coherent memory. This header is all that a program includes.
#pragma once

#include "atoll/address.hpp"
#include "atoll/array.hpp"
#include "atoll/buffer_pool.hpp"
#include "atoll/file.hpp"
#include "atoll/hash_map.hpp"
#include "atoll/lock.hpp"
#include "atoll/node.hpp"
#include "atoll/options.hpp"
#include "atoll/stats.hpp"
#include "atoll/status.hpp"
#include "atoll/txn.hpp"
