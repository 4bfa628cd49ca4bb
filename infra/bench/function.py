"""A function as a process of its own, and the Runtime API that it asks for its events."""

import queue
import re
import signal
import subprocess
import time
from pathlib import Path

from cloud import serve

PATIENCE = 300
TRACE = "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=1"


class Function:
    """A function that has started, and waits for its first event."""

    def __init__(self, binary, environment, wrapped_in=()):
        self.events, self.answers, self.waits = queue.Queue(), queue.Queue(), queue.Queue()
        function = self
        self.server, address = serve(lambda request, path, body: function.answered(path, body))
        runtime = {
            "AWS_LAMBDA_RUNTIME_API": address,
            "AWS_LAMBDA_FUNCTION_NAME": binary.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
        }
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [*wrapped_in, binary], env={**environment, **runtime}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.started_in = self.until_it_waits() - began

    def answered(self, path, body):
        if not path.endswith("/next"):
            self.answers.put((path.rsplit("/", 1)[-1], body))
            return 202, {}, b"{}"
        self.waits.put(time.perf_counter())
        return 200, {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": "6bc28136-xmpl-4365-b021-0ce6b2e64ab0",
            "Lambda-Runtime-Deadline-Ms": int(time.time() * 1000) + 30_000,
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:123456789012:function:bench",
            "Lambda-Runtime-Trace-Id": TRACE,
        }, self.events.get()

    def until_it_waits(self):
        """When it asked for its next event."""
        for _ in range(PATIENCE):
            try:
                return self.waits.get(timeout=1)
            except queue.Empty:
                if self.process.poll() is not None:
                    raise SystemExit(f"{self.process.args[-1]} ended: {self.process.stderr.read().decode()}") from None
        raise SystemExit(f"{self.process.args[-1]} did not ask for an event within {PATIENCE} s")

    def invoke(self, event):
        self.events.put(event)
        ended, answer = self.answers.get(timeout=PATIENCE)
        if ended != "response":
            raise SystemExit(f"{self.process.args[-1]}: {answer.decode()}")
        self.until_it_waits()
        return answer

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.process.stderr.close()
        self.server.shutdown()
        self.server.server_close()


def instructions(binary, environment, events, folder):
    """How many instructions a function executes until it has done these events."""
    out = Path(folder) / f"callgrind.{binary.name}"
    out.unlink(missing_ok=True)
    function = Function(binary, environment, ("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "-q"))
    for event in events:
        function.invoke(event)
    function.stop()
    return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)[1])

