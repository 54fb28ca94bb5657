# How every target of the project is built: warnings, sanitizers, layering.
include(GNUInstallDirs)

add_library(atoll_flags INTERFACE)
target_compile_options(atoll_flags INTERFACE -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(atoll_flags INTERFACE -Wthread-safety "SHELL:-Xclang -fno-pch-timestamp")  # the latter for ccache
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(atoll_flags INTERFACE -Wno-restrict)  # a false alarm of GCC 12 about "text" + std::string
endif()
if(ATOLL_SANITIZE)
  target_compile_options(atoll_flags INTERFACE -fsanitize=${ATOLL_SANITIZE} -fno-omit-frame-pointer
                                               -fno-sanitize-recover=all -g1 -O1)
  target_link_options(atoll_flags INTERFACE -fsanitize=${ATOLL_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The presets use clang, which needs none of this. Instrumented code confuses GCC's flow analysis (std::regex,
    # std::function); GCC 12 takes the address of a thread_local, used through a reference, for null; and it warns of each
    # fence that ThreadSanitizer does not know fences. (Ours stand between atomics only and publish nothing else, so that
    # it misses nothing and invents nothing.)
    target_compile_options(atoll_flags INTERFACE -Wno-maybe-uninitialized)
    if(ATOLL_SANITIZE MATCHES undefined)
      target_compile_options(atoll_flags INTERFACE -fno-sanitize=null)
    endif()
    if(ATOLL_SANITIZE MATCHES thread)
      target_compile_options(atoll_flags INTERFACE -Wno-tsan)
    endif()
  endif()
endif()

if(ATOLL_COVERAGE)
  # Counters that can stand in a mapped file: what a killed process had counted is there all the same.
  target_compile_options(atoll_flags INTERFACE -fprofile-instr-generate -fcoverage-mapping
                                               "SHELL:-mllvm -runtime-counter-relocation")
  target_link_options(atoll_flags INTERFACE -fprofile-instr-generate)
endif()

# For programs that are built to test and not to measure: what they spend is mostly the compiler's time.
add_library(atoll_quick_build INTERFACE)
if(ATOLL_SANITIZE)
  target_compile_options(atoll_quick_build INTERFACE -O0)
else()
  target_compile_options(atoll_quick_build INTERFACE -O1)
endif()

# For what the fuzz targets are made of: it counts for libFuzzer what it runs. Where libFuzzer is not linked the
# sanitizer's own runtime takes the calls and does nothing.
add_library(atoll_fuzzed INTERFACE)
if(ATOLL_FUZZ)
  target_compile_options(atoll_fuzzed INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What most sources include, read once: atoll_common_headers(TARGET [FROM]), where FROM is a target with the same flags that has
# read it. Not for ThreadSanitizer: that build sees what a source has forgotten to include.
function(atoll_common_headers target)
  if(ATOLL_SANITIZE MATCHES thread)
    return()
  elseif(ARGN)
    target_precompile_headers(${target} REUSE_FROM ${ARGN})
  else()
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <chrono> <cstring> <functional> <map> <memory>
                                                <optional> <span> <string> <vector> <fmt/format.h>)
  endif()
endfunction()

# atoll_layer(NAME SOURCES... [DEPS ...] [LIBS ...] [HEADERS ...]): one folder of src/ as an object library. DEPS are the
# layers that it may include; a folder that is not named there is not on the include path of its link line. HEADERS are
# what this layer reads once, instead of the common ones.
function(atoll_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS;HEADERS" ${ARGN})
  add_library(atoll_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(atoll_${name} PUBLIC ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(atoll_${name} PRIVATE atoll_flags atoll_fuzzed fmt::fmt spdlog::spdlog ${ARG_LIBS} Threads::Threads)
  if(ARG_HEADERS)
    target_precompile_headers(atoll_${name} PRIVATE ${ARG_HEADERS})
  elseif(name STREQUAL base)
    atoll_common_headers(atoll_base)
  else()
    atoll_common_headers(atoll_${name} atoll_base)
  endif()
  foreach(dep ${ARG_DEPS})
    add_dependencies(atoll_${name} atoll_${dep})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY ATOLL_LAYERS atoll_${name})
endfunction()
