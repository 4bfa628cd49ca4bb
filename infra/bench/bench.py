"""What a change costs: how the intake and the processor start, and the instructions of an event, before and after.

Three ways are measured in one run: a base revision, the work tree without tracing, and the work tree that exports every
trace. Instructions are counted by callgrind: those of 2N events less those of N, so that whatever is done once cancels
out. Times are the medians of processes that take turns, and as true as the machine is quiet.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

import events
from cloud import Cloud
from function import Function, instructions

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".local" / "bench"
FUNCTIONS = ("intake", "processor")
WORK_TREE = "the work tree"

# How many times the base's instructions each way may take. Times are shown, and no verdict: they are of the machine, too.
LIMITS = {"off": 1.02, "on": 1.10}
LIMITED = ("start, instructions", "instructions an event")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--base", required=True, help="the revision that is compared with")
    arguments.add_argument("--now", default=WORK_TREE, help="a revision instead of the work tree")
    arguments.add_argument("--events", type=int, default=100, help="how many events are counted")
    arguments.add_argument("--starts", type=int, default=51, help="how often each function is started")
    given = arguments.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("make bench counts instructions with valgrind, which is not there: install the package `valgrind`.")
    base, now = binaries(given.base), binaries(given.now)
    ways = {"base": (base, False), "off": (now, False), "on": (now, True)}
    print(f"\nbase: {given.base}, now: {given.now}; {given.events} events, {given.starts} starts of each\n")
    wrong = [show(name, rows) for name in FUNCTIONS for rows in [measure(name, ways, given)]]
    sys.exit(1 if any(wrong) else 0)


def binaries(revision):
    """The folder with the functions of a revision. What a commit was built to before is not built again."""
    commit = None if revision == WORK_TREE else short(revision)
    folder = PLACE / "bin" / (commit or "work-tree")
    if commit is None or not all((folder / name).exists() for name in FUNCTIONS):
        build(checked_out(commit) if commit else ROOT, folder)
    return folder


def build(tree, folder):
    """Builds the functions as a deploy would."""
    packages = [word for name in FUNCTIONS for word in ("-p", name)]
    target = PLACE / "target"
    subprocess.run(["cargo", "build", "--release", "--locked", *packages, "--target-dir", target], cwd=tree, check=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in FUNCTIONS:
        shutil.copy2(target / "release" / name, folder / name)


def short(revision):
    asked = ["git", "rev-parse", "--verify", "--short", f"{revision}^{{commit}}"]
    named = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    if named.returncode:
        sys.exit(f"git knows no revision {revision}: {named.stderr.strip()}")
    return named.stdout.strip()


def checked_out(commit):
    """A work tree of its own for a commit."""
    tree = PLACE / commit
    if not tree.exists():
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
    return tree


def measure(name, ways, given):
    """What is measured of a function, each by way."""
    cloud = Cloud()
    rows = {}
    for way, (folder, traced) in ways.items():
        environment = events.environment(cloud, ROOT, traced)
        for what, value in counted(name, folder, environment, cloud, given.events).items():
            rows.setdefault(what, {})[way] = value
    times = {way: [] for way in ways}
    for _ in range(given.starts):
        for way, (folder, traced) in ways.items():
            times[way].append(start(folder / name, events.environment(cloud, ROOT, traced)))
    rows["start, ms"] = {way: 1000 * median(taken) for way, taken in times.items()}
    rows["binary, MB"] = {way: (folder / name).stat().st_size / 1e6 for way, (folder, _) in ways.items()}
    return rows


def start(binary, environment):
    function = Function(binary, environment)
    function.stop()
    return function.started_in


def counted(name, folder, environment, cloud, n):
    """What one start of a function takes, and what one event does."""
    def run(many):
        given = work(name, folder, environment, cloud, many)
        cloud.counted.clear()
        executed = instructions(folder / name, environment, given, PLACE)
        return {"instructions": executed, **{of: cloud.counted[of] for of in ("requests", "write units", "exports")}}

    nothing, once, twice = run(0), run(n), run(2 * n)
    rows = {"start, instructions": nothing["instructions"]}
    return rows | {f"{of} an event": (twice[of] - once[of]) / n for of in once}


def work(name, folder, environment, cloud, many):
    """Events for a function: new deliveries, or the messages that the intake makes of them."""
    deliveries = [events.delivery() for _ in range(many)]
    if name == "intake" or not many:
        return deliveries
    intake = Function(folder / "intake", environment)
    cloud.messages.clear()
    for delivery in deliveries:
        intake.invoke(delivery)
    intake.stop()
    return [events.message(sent) for sent in cloud.messages]


def show(name, rows):
    """Prints what was measured of a function. Says whether a limit is exceeded."""
    wrong = False
    print(f"{name:<26}{'base':>12}{'now, off':>12}{'':>8}{'now, on':>12}")
    for what, by in rows.items():
        line = f"  {what:<24}{number(by['base'])}"
        for way, limit in LIMITS.items():
            ratio = by[way] / by["base"] if by["base"] else 0
            over = what in LIMITED and ratio > limit
            line += f"{number(by[way])}" + (f" ×{ratio:.3f}{'!' if over else ' '}" if ratio else " " * 8)
            wrong |= over
        print(line.rstrip())
    print()
    return wrong


def number(value):
    return f"{value:>12,.0f}" if value >= 1000 else f"{value:>12.2f}"


if __name__ == "__main__":
    main()
