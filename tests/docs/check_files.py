#!/usr/bin/env python3
"""Files that the documentation shows are the files that are there.

A block that begins with ```LANGUAGE file=PATH must be the text of that file of the project, and every file of docs/start must be
shown. Scripts are looked at by `bash -n`, units by `systemd-analyze verify` where there is one.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```[a-z]* file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def compare(root: pathlib.Path) -> list:
    wrong, shown = [], set()
    for page in sorted((root / "docs").glob("*.md")):
        for name, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            shown.add(root / name)
            if not (root / name).is_file():
                wrong.append(f"{page.name} shows {name}, which does not exist")
            elif (root / name).read_text(encoding="utf-8") != text:
                wrong.append(f"{page.name} shows another {name} than there is")
    wrong += [f"no page shows {file.relative_to(root)}" for file in sorted((root / "docs/start").iterdir())
              if file not in shown]
    return wrong


def run(command: list) -> list:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return [] if done.returncode == 0 and not done.stdout else [f"{' '.join(map(str, command))}: {done.stdout}"]


def check_units(folder: pathlib.Path) -> list:
    if shutil.which("systemd-analyze") is None:
        print("NOT LOOKED AT: the units, for there is no systemd-analyze here")
        return []
    with tempfile.TemporaryDirectory() as scratch:
        names = []
        for unit in sorted(folder.glob("*.service")):
            # The command may not be installed here, and the user and the environment are of another host.
            text = unit.read_text(encoding="utf-8").replace("/usr/bin/atoll ", "/bin/true ")
            name = pathlib.Path(scratch) / unit.name.replace("@.", "@3.")
            name.write_text(text, encoding="utf-8")
            names.append(str(name))
        return run(["systemd-analyze", "verify", "--man=no", *names]) if names else ["there are no units"]


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    wrong = compare(root)
    for script in sorted((root / "docs/start").glob("*.sbatch")):
        wrong += run(["bash", "-n", str(script)])
    wrong += check_units(root / "docs/start")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
