#!/usr/bin/env python3
"""Takes the examples out of the documentation.

An example is a block that begins with ```cpp example=NAME. Other blocks are not looked at. There are two kinds:

  a program    contains "int main"; compiled as it stands
  a fragment   anything else; becomes the body of `void example_NAME(atoll::Node& node)`, run by every node, with
               the headers of PREAMBLE above it. All fragments together are one program, which runs the one that
               its argument names. A fragment reports failure by throwing; `expect(condition)` is there for that.

Names are unique over all files.

Usage: extract.py FILE.md NAME   prints one example
"""
import pathlib
import re
import sys

BLOCK = re.compile(r"^```cpp example=([a-z0-9_]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

PREAMBLE = """// Made from the documentation by tests/docs/extract.py.
#include <atoll/atoll.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

[[maybe_unused]] static void expect(bool condition) {
  if (!condition) throw std::runtime_error("an expectation of the documentation does not hold");
}

"""


class Example:
    def __init__(self, path: pathlib.Path, name: str, line: int, code: str):
        self.path, self.name, self.line, self.code = path, name, line, code
        self.is_program = "int main" in code


def examples_in(path: pathlib.Path) -> list:
    text = path.read_text(encoding="utf-8")
    return [Example(path, m.group(1), text.count("\n", 0, m.start()) + 2, m.group(2)) for m in BLOCK.finditer(text)]


def fragments_program(fragments: list) -> str:
    source = PREAMBLE
    for e in fragments:
        source += f'#line {e.line} "{e.path.name}"\nstatic void example_{e.name}(atoll::Node& node) {{\n'
        source += f"  (void)node;\n#line {e.line} \"{e.path.name}\"\n{e.code}}}\n\n"
    # A node that failed ends at once: leaving would wait for the others, who may wait for it.
    source += "int main(int, char** argv) {\n  const std::string_view name = argv[1];\n"
    source += "  atoll::Node node = atoll::join();\n  try {\n"
    for e in fragments:
        source += f'    if (name == "{e.name}") example_{e.name}(node);\n'
    source += "    node.barrier().or_throw();\n  } catch (const std::exception& error) {\n"
    source += '    std::fprintf(stderr, "%s\\n", error.what());\n    std::_Exit(1);\n  }\n}\n'
    return source


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    for example in examples_in(pathlib.Path(sys.argv[1])):
        if example.name == sys.argv[2]:
            sys.stdout.write(example.code)
            return 0
    print(f"{sys.argv[1]} has no example called {sys.argv[2]}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
