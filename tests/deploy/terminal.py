"""A terminal at which a test sits."""

import os
import pty
import select
import signal
import sys
import time
import traceback

PATIENCE = 120


def at_a_terminal(work, *typed):
    """Runs the work in a process of its own at a terminal, and types each reply when its question stands there.

    Returns what the terminal showed, and the exit code.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("CI", None)
        code = 0
        try:
            work()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
            print(ended.code)
        except BaseException:
            traceback.print_exc()
            code = 99
        sys.stdout.flush()
        os._exit(code)
    return drive(child, terminal, list(typed))


def drive(child, terminal, typed):
    shown, answered, ends = "", 0, time.monotonic() + PATIENCE
    try:
        while time.monotonic() < ends:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                more = os.read(terminal, 4096)
            except OSError:  # Linux tells the end of a terminal so
                more = b""
            if not more:
                break
            shown += more.decode(errors="replace")
            if typed and typed[0][0] in shown[answered:]:
                answered = len(shown)
                os.write(terminal, f"{typed.pop(0)[1]}\n".encode())
    finally:
        if time.monotonic() >= ends:
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(terminal)
    assert not typed, f"nobody asked {typed[0][0]!r}:\n{shown}"
    return shown.replace("\r\n", "\n"), code
