"""Puts each defect of PROOF.md back into the product's own code, and runs the tests that are named beside it: one has to fail.

    make defects                               every defect that a file of this folder puts back
    make defects ARGS='--only renamed'         those whose row says this

A copy of the work tree is changed, below .local/defects, and never the work tree. Each file of this folder belongs to one
table of PROOF.md, and has for each of its rows the text that is replaced and what takes its place. Rows that are put back by a
mutant of the simulation need no entry here: `make mutants` tries them. Tests on the local cloud are not run.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PLACE = ROOT / ".local" / "defects"
TREE, TARGET = PLACE / "tree", PLACE / "target"
PROOF = ROOT / "infra/docs/PROOF.md"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", default="", help="only rows that have this text")
    arguments.add_argument("--keep-going", action="store_true", help="go on after a defect that nothing caught")
    given = arguments.parse_args()
    defects = [entry for entry in entries() if given.only in entry["defect"]]
    if not defects:
        sys.exit(f"No defect of {HERE.relative_to(ROOT)} has the text {given.only!r}.")
    copy_work_tree()
    print("building the tests as they are …", flush=True)
    known = listed_tests()
    missed = []
    for number, entry in enumerate(defects, 1):
        began = time.monotonic()
        verdict, is_caught = put_back(entry, known)
        print(f"[{number}/{len(defects)}] {entry['defect']}\n    {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
        if not is_caught:
            missed.append(entry["defect"])
            if not given.keep_going:
                break
    if missed:
        sys.exit("Not caught: " + "; ".join(missed))
    print(f"{len(defects)} defects were put back, and each was caught.")


def entries():
    """Every defect that is put back, with the names of the tests that its row of PROOF.md has."""
    rows = rows_of_proof()
    for path in sorted(HERE.glob("*.yaml")):
        for entry in yaml.safe_load(path.read_text()):
            if entry["defect"] not in rows:
                sys.exit(f"{path.relative_to(ROOT)}: PROOF.md has no row {entry['defect']!r}.")
            yield entry | {"tests": rows[entry["defect"]]}


def rows_of_proof():
    section = PROOF.read_text().split("## Defects that were, and what catches them\n")[1].split("\n## ")[0]
    rows = {}
    for line in section.splitlines():
        if line.startswith("| "):
            defect, tests = line.strip("| ").split(" | ")
            rows[defect] = re.findall(r"`([^`]+::[^`]+)`", tests)
    return rows


def copy_work_tree():
    """The files that git knows or would take, as they are now. What did not change keeps its time, so that little is built."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    TREE.mkdir(parents=True, exist_ok=True)
    for path in [path for path in TREE.rglob("*") if path.is_file()]:
        if str(path.relative_to(TREE)) not in wanted:
            path.unlink()
    for name in wanted:
        source, copy = ROOT / name, TREE / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)


def cargo(*arguments, **options):
    command = ["cargo", "nextest", *arguments, "--target-dir", TARGET]
    return subprocess.run(command, cwd=TREE, capture_output=True, text=True, **options)


def listed_tests():
    """The name of every test, with the binary that has it."""
    listed = cargo("list", "--workspace", "--message-format", "json")
    if listed.returncode:
        sys.exit(f"The tests do not build as they are:\n{listed.stderr[-4000:]}")
    suites = json.loads(listed.stdout)["rust-suites"].values()
    return [(suite, test) for suite in suites for test in suite["testcases"]]


def put_back(entry, known):
    """Puts a defect back, runs its tests, and takes it out again. Says what came of it."""
    chosen = [(suite, test) for suite, test in known if any(is_named(test, name) for name in entry["tests"])]
    if not chosen:
        return "none of its tests runs without the local cloud", False
    before = {}
    try:
        for change in entry["put_back"]:
            path = TREE / change["in"]
            text = path.read_text()
            before.setdefault(path, text)
            if text.count(change["this"]) != 1:
                return f"{change['in']} has the replaced text {text.count(change['this'])} times: {change['this']!r}", False
            path.write_text(text.replace(change["this"], change["by"]))
        return verdict(chosen)
    finally:
        for path, text in before.items():
            path.write_text(text)


def is_named(test, name):
    return not test.startswith("cloud::") and (test == name or test.endswith(f"::{name}") or test.endswith(in_tests(name)))


def in_tests(name):
    """The tests beside the code stand in a module `tests`, which PROOF.md leaves out."""
    module, _, test = name.rpartition("::")
    return f"{module}::tests::{test}"


def verdict(chosen):
    binaries = {suite["binary-id"]: suite for suite, _ in chosen}
    which = [word for suite in binaries.values() for word in binary(suite)]
    only = " or ".join(f"(binary_id({suite['binary-id']}) and test(={test}))" for suite, test in chosen)
    ran = cargo("run", *which, "--no-fail-fast", "-E", only)
    failed = sorted(set(re.findall(r"(?:FAIL|TIMEOUT|ABORT|SIG\w+) +\[.*?\].* (\S+)$", ran.stderr, re.MULTILINE)))
    if "error: could not compile" in ran.stderr or (ran.returncode and not failed):
        return f"it does not build: {ran.stderr[-1500:]}", False
    passed = len(chosen) - len(failed)
    if not failed:
        return f"NOT CAUGHT: {passed} tests passed", False
    return "caught by " + ", ".join(failed) + (f"; {passed} passed" if passed else ""), True


def binary(suite):
    kind = ["--lib"] if suite["kind"] == "lib" else ["--test" if suite["kind"] == "test" else "--bin", suite["binary-name"]]
    return ["-p", suite["package-name"], *kind]


if __name__ == "__main__":
    main()
