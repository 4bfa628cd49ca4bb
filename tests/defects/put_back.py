"""Puts each defect of PROOF.md back into the product's own code, and runs the tests that are named beside it: one must fail.

    make defects                           every defect that a file of this folder puts back
    make defects ARGS='--only renamed'     those whose row, or whose file, has this text
    make defects ARGS='--list'             what is put back, and what is not and why

Each file of this folder belongs to one table of PROOF.md. It has, for each row, the text that is replaced and what takes its
place. There, the word PUT_BACK stands for "this defect is on trial". So all of them are built at once, into a copy of the work
tree below .local/defects, and each is put on trial alone: what fails then fails for it. Before that, all tests must pass with
none of them on trial. A file that is not built, such as a list of packages, is changed for its own trial only.

Rows that a mutant of the simulation puts back need no entry: `make mutants` tries those. Tests on the local cloud are not run.
It needs cargo-nextest, and builds the workspace once more, beside target; from then on it builds what has changed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PLACE = ROOT / ".local" / "defects"
TREE, TARGET = PLACE / "tree", PLACE / "target"
PROOF = ROOT / "infra/docs/PROOF.md"
SECTION = "## Defects that were, and what catches them\n"

# Which defect is on trial, for the tests and for what they start.
ON_TRIAL = "LEDGERLINE_DEFECT"
SWITCH = re.compile(r"\bPUT_BACK\b")
FAILED = re.compile(r"^ *(?:FAIL|TIMEOUT|LEAK-FAIL|ABORT|SIG\w+) +\[.*?\] +(?:\([ \d]+/\d+\) +)?\S+ +(\S+)$", re.MULTILINE)


def main():
    arguments = argparse.ArgumentParser(
        prog="make defects", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--only", default="", metavar="TEXT", help="only rows, or files, that have this text")
    arguments.add_argument("--list", action="store_true", help="print what is put back, and what is not; build nothing")
    given = arguments.parse_args()
    known = list(defects())
    chosen = [defect for defect in known if given.only in defect["defect"] or given.only in defect["name"]]
    if not chosen:
        sys.exit(f"No defect of {HERE.relative_to(ROOT)} has the text {given.only!r}.")
    if given.list:
        return print_list(chosen)
    on_trial = [defect for defect in chosen if defect["put_back"]]
    # All are built, whichever are chosen: the next run has nothing to build.
    copy_work_tree(with_defects(known))
    missed = Trials(known, on_trial).run()
    if missed:
        sys.exit(f"\n{len(missed)} of {len(on_trial)} defects were not caught:\n  " + "\n  ".join(missed))
    print(f"\n{len(on_trial)} defects were put back, and each was caught by a test that PROOF.md names beside it.")


def defects():
    """Every entry, with a name of its own and with the tests that its row of PROOF.md has."""
    rows = rows_of_proof()
    for path in sorted(HERE.glob("*.yaml")):
        for number, entry in enumerate(yaml.safe_load(path.read_text()), 1):
            if entry["defect"] not in rows:
                sys.exit(f"{path.relative_to(ROOT)}: PROOF.md has no row {entry['defect']!r}.")
            why_not = entry.get("not_put_back")
            tests = [name for name in rows[entry["defect"]] if not name.startswith("cloud::")]
            yield {
                "name": f"{path.stem}-{number}",
                "defect": entry["defect"],
                "tests": tests,
                "put_back": entry.get("put_back", []),
                "why_not": why_not,
            }


def rows_of_proof():
    section = PROOF.read_text().split(SECTION)[1].split("\n## ")[0]
    rows = {}
    for line in section.splitlines():
        if line.startswith("| "):
            defect, tests = line.strip("| ").split(" | ")
            rows[defect] = re.findall(r"`([^`]+::[^`]+)`", tests)
    return rows


def print_list(chosen):
    for defect in chosen:
        print(f"{defect['name']}: {defect['defect']}")
        if defect["why_not"]:
            print(f"    not put back: {defect['why_not']}")
        for change in defect["put_back"]:
            print(f"    in {change['in']}")


def with_defects(known):
    """The files that are built, with all defects in them, each behind its switch."""
    changed = {}
    for defect in known:
        switch = f'std::env::var_os("{ON_TRIAL}").is_some_and(|on| on == "{defect["name"]}")'
        for change in built(defect):
            text = changed.get(change["in"]) or (ROOT / change["in"]).read_text()
            changed[change["in"]] = replaced(text, change, SWITCH.sub(switch, change["by"]))
    return changed


def copy_work_tree(changed):
    """The files that git knows or would take, with these changed. What is as it was keeps its time, and is not built anew."""
    listed = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = {name for name in listed if (ROOT / name).is_file()}
    for path in [path for path in TREE.rglob("*") if path.is_file()]:
        if str(path.relative_to(TREE)) not in wanted:
            path.unlink()
    for name in wanted:
        path, content = TREE / name, changed[name].encode() if name in changed else (ROOT / name).read_bytes()
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            shutil.copymode(ROOT / name, path)


def built(defect):
    return [change for change in defect["put_back"] if change["in"].endswith(".rs")]


def replaced(text, change, by):
    if text.count(change["this"]) != 1:
        sys.exit(f"{change['in']} has this text {text.count(change['this'])} times, and not once:\n{change['this']}")
    return text.replace(change["this"], by)


class Trials:
    """The tests, built once, and each defect's trial."""

    def __init__(self, known, on_trial):
        self.on_trial = on_trial
        named = {name.split("::")[0] for defect in known for name in defect["tests"]}
        beside = [path.stem for pattern in ("infra/*/tests/*.rs", "functions/*/tests/*.rs") for path in TREE.glob(pattern)]
        # Without `-p`: cargo unifies the features of the whole workspace, and shares what is built.
        self.binaries = ["--workspace", "--lib", *(word for stem in sorted(named & set(beside)) for word in ("--test", stem))]

    def run(self):
        """Puts each defect on trial. Returns the rows of those that nothing has caught."""
        known = self.list_tests()
        tests = {defect["name"]: [test for test in known if is_one_of(test, defect["tests"])] for defect in self.on_trial}
        for defect in self.on_trial:
            if not tests[defect["name"]]:
                sys.exit(f"None of its tests runs without the local cloud: {defect['defect']}")
        print("running the tests with no defect on trial …", flush=True)
        failed = self.run_tests({test for named in tests.values() for test in named}, "")
        if failed:
            sys.exit("These fail though no defect is on trial: " + ", ".join(failed))
        missed = []
        for number, defect in enumerate(self.on_trial, 1):
            began = time.monotonic()
            with changed_for_its_trial(defect):
                failed = self.run_tests(tests[defect["name"]], defect["name"])
            verdict = "caught by " + ", ".join(failed) if failed else f"NOT CAUGHT by {len(tests[defect['name']])} tests"
            took = time.monotonic() - began
            print(f"[{number}/{len(self.on_trial)}] {defect['defect']}\n    {verdict} ({took:.0f} s)", flush=True)
            missed += [] if failed else [f"{defect['defect']} ({defect['name']})"]
        return missed

    def list_tests(self):
        """Every test, as its binary's id and its name."""
        print("building the tests with the defects …", flush=True)
        listed = self.cargo("list", "--message-format", "json", stdout=subprocess.PIPE)
        if listed.returncode:
            sys.exit("The tests do not build with these defects.")
        suites = json.loads(listed.stdout)["rust-suites"].values()
        return [(suite["binary-id"], test) for suite in suites for test in suite["testcases"]]

    def run_tests(self, tests, on_trial):
        """The names of those that fail."""
        only = " or ".join(f"(binary_id(={binary}) and test(={test}))" for binary, test in sorted(tests))
        options = ["--no-fail-fast", "--color", "never", "--status-level", "fail", "--final-status-level", "none"]
        environment = os.environ | {ON_TRIAL: on_trial}
        ran = self.cargo("run", *options, "-E", only, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        failed = sorted(set(FAILED.findall(ran.stderr)))
        if ran.returncode and not failed:
            sys.exit(f"The tests could not be run:\n{ran.stderr[-3000:]}")
        return failed

    def cargo(self, verb, *arguments, **options):
        command = ["cargo", "nextest", verb, *self.binaries, "--target-dir", TARGET, *arguments]
        return subprocess.run(command, cwd=TREE, text=True, **options)


def is_one_of(test, names):
    """PROOF.md leaves out the module of the tests beside the code, and on what the contract suite runs."""
    plain = without(test[1], "tests", "on_the_model")
    return any(plain == name or plain.endswith(f"::{name}") for name in (without(name, "tests") for name in names))


def without(name, *modules):
    return "::".join(part for part in name.split("::") if part not in modules)


@contextmanager
def changed_for_its_trial(defect):
    """Changes what of a defect is not built, and takes it back."""
    changes = [change for change in defect["put_back"] if not change["in"].endswith(".rs")]
    before = {change["in"]: (TREE / change["in"]).read_text() for change in changes}
    try:
        for change in changes:
            path = TREE / change["in"]
            path.write_text(replaced(path.read_text(), change, change["by"]))
        yield
    finally:
        for name, text in before.items():
            (TREE / name).write_text(text)


if __name__ == "__main__":
    main()
