"""Releases the checked-out commit twice, in two folders of different depth, and compares the packages.

    python twice.py --arch x86_64 [--only command]

It takes two release builds, so a while. The clones and all that is built stay below target/twice until the next run.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

import release

FOLDERS = ("one", "another/folder")


def clone(folder):
    """A clone of the checked-out commit: somebody may commit meanwhile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", "--shared", str(release.ROOT), str(folder)], check=True)
    return folder


def packages(folder, arguments):
    """The hashes of what one clone releases, by the names of the packages."""
    script = folder / "infra/release/release.py"
    environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    subprocess.run([sys.executable, str(script), *arguments, "--out", str(folder / "packages")], check=True, env=environment)
    return {file.name: file.read_text() for file in (folder / "packages").glob("*.sha256")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", required=True, choices=release.LINUX)
    parser.add_argument("--only", choices=["command"])
    asked = parser.parse_args()
    arguments = ["--arch", asked.arch, *(["--only", asked.only] if asked.only else [])]
    place = release.ROOT / "target/twice"
    shutil.rmtree(place, ignore_errors=True)
    clones = [clone(place / folder) for folder in FOLDERS]
    one, other = (packages(folder, arguments) for folder in clones)
    if not one or one != other:
        sys.exit(f"the packages differ:\n{one}\n{other}")
    print("Both have the same bytes:\n" + "".join(one.values()), end="")


if __name__ == "__main__":
    main()
