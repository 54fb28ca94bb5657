#!/usr/bin/env python3
"""What the documentation names must exist.

In README.md and docs/*.md: paths in backticks that begin with a folder of the project, targets of relative links,
functions written as `Class::function`, and environment variables `ATOLL_...`.
"""
import pathlib
import re
import sys

FOLDERS = "src|include|tools|bench|examples|tests|scripts|docs|cmake"
PATH = re.compile(rf"`((?:{FOLDERS})/[A-Za-z0-9_./-]*)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
FUNCTION = re.compile(r"`([A-Z][A-Za-z]*)::([a-z_][a-z_0-9]*)(?:\(\))?`")
VARIABLE = re.compile(r"`(ATOLL_[A-Z_]+)(?:=[^`]*)?`")


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    code = "\n".join(p.read_text(encoding="utf-8") for top in ("include", "src", "tools", "bench", "tests")
                     for p in sorted((root / top).rglob("*.?pp")))
    code += (root / "CMakeLists.txt").read_text() + (root / "CMakePresets.json").read_text()
    wrong = 0
    for page in [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").glob("*.md"))]:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            missing = [m for m in PATH.findall(line) if not (root / m).exists()]
            missing += [m for m in LINK.findall(line) if not (page.parent / m).exists()]
            missing += [f"{c}::{f}" for c, f in FUNCTION.findall(line)
                        if not (re.search(rf"\b{f}\b", code) and re.search(rf"\b{c}\b", code))]
            missing += [v for v in VARIABLE.findall(line) if v not in code]
            for name in missing:
                print(f"{page.relative_to(root)}:{number}: there is no {name}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
