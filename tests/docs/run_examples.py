#!/usr/bin/env python3
"""Compiles every example of README.md and docs/*.md (see extract.py) and runs it by two nodes."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import extract  # noqa: E402


def run(command: list, what: str) -> bool:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    except subprocess.TimeoutExpired as late:
        print(f"FAILED  {what}: not done after 120 s\n{late.output or ''}")
        return False
    if done.returncode != 0:
        print(f"FAILED  {what}: code {done.returncode}\n{done.stdout}")
        return False
    print(f"ok      {what}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("source", "compiler", "library", "atoll"):
        parser.add_argument(f"--{option}", required=True)
    options = parser.parse_args()
    source = pathlib.Path(options.source)
    examples = []
    for path in [source / "README.md", *sorted((source / "docs").glob("*.md"))]:
        examples += extract.examples_in(path)
    names = [e.name for e in examples]
    doubles = {name for name in names if names.count(name) > 1}
    if not examples or doubles:
        print("there are no examples" if not examples else f"two examples have one name: {sorted(doubles)}")
        return 1

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)

        def compile_text(text: str, name: str) -> bool:
            file = folder / f"{name}.cpp"
            file.write_text(text, encoding="utf-8")
            return run([options.compiler, "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{source / 'include'}",
                        str(file), options.library, "-lspdlog", "-lfmt", "-lsodium", "-luring", "-lpthread", "-o", str(folder / name)],
                       f"compile {name}")

        good = True
        fragments = [e for e in examples if not e.is_program]
        launch = [options.atoll, "run", "-n", "2", "--memory", "16M", "--cache", "4M", "--file-space", "256M", "--"]
        if fragments:
            compiled = compile_text(extract.fragments_program(fragments), "fragments")
            good = good and compiled
            for e in fragments if compiled else []:
                good = run([*launch, str(folder / "fragments"), e.name], f"{e.path.name}:{e.line} {e.name}") and good
        for e in (e for e in examples if e.is_program):
            if compile_text(e.code, e.name):
                good = run([*launch, str(folder / e.name)], f"{e.path.name}:{e.line} {e.name}") and good
            else:
                good = False
            # A program that is also a file of examples/ must be that file.
            twin = source / "examples" / f"{e.name}.cpp"
            if twin.exists() and twin.read_text(encoding="utf-8") != e.code:
                print(f"FAILED  {e.path.name}:{e.line} {e.name} differs from {twin}")
                good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
