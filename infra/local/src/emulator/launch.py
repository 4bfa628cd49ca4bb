"""Starts the emulator where only its owner reaches it.

The emulator listens on a socket in the file system instead of a port. Each function process that it starts talks to a
small server of the emulator's on a port of its own: those answer only whoever has the token of this run in the path,
and no request that a browser made.
"""

import asyncio
import http.server
import os
import sys

os.umask(0o077)
socket, pid_file = sys.argv[1:3]
# Taken away: the functions inherit the environment, and get the token in their runtime's address.
token = os.environ.pop("RUNTIME_TOKEN")
with open(pid_file, "w") as file:
    file.write(str(os.getpid()))

from hypercorn.asyncio import serve  # noqa: E402
from hypercorn.config import Config  # noqa: E402
from ministack import app  # noqa: E402
from ministack.services import cloudwatch, lambda_svc  # noqa: E402
from ministack.services.cloudformation import changesets, engine  # noqa: E402


class Guarded:
    """Every server that the emulator starts in this process by Python's own means."""

    parse = http.server.BaseHTTPRequestHandler.parse_request

    def parse_request(self):
        if not Guarded.parse(self):
            return False
        host = "127.0.0.1:%d" % self.server.server_address[1]
        foreign = self.headers.get_all("host") != [host] or "origin" in self.headers or "sec-fetch-site" in self.headers
        if foreign or not self.path.startswith(f"/{token}/"):
            self.close_connection = True
            self.send_error(403)
            return False
        return True


def with_token(config, code_dir, port, environment=lambda_svc._provided_worker_env):
    made = environment(config, code_dir, port)
    made["AWS_LAMBDA_RUNTIME_API"] = f"http://127.0.0.1:{port}/{token}"
    # A key of its own, as the session of its role is in AWS: so the proxy knows who calls.
    made["AWS_ACCESS_KEY_ID"] = "FUNCTION-" + config["FunctionName"]
    return made


def with_parameters(template, provided=None, previous=None, apply=engine._apply_transforms):
    """AWS hands the parameters to the SAM transform. The emulator hands none: SAM would take each by its default."""
    from samtranslator.translator import transform as sam

    values, transform = engine._transform_parameters(template, provided, previous), sam.transform
    sam.transform = lambda template, _, policies: transform(template, values, policies)
    try:
        return apply(template, provided, previous)
    finally:
        sam.transform = transform


class ExactlyThese(dict):
    """The dimensions of a query. CloudWatch takes none for the metric without dimensions; the emulator, for all of them."""

    def __bool__(self):
        return True


def exact_dimensions(dimensions, read=cloudwatch._dims_from_list):
    return ExactlyThese(read(dimensions))


cloudwatch._dims_from_list = exact_dimensions
changesets._apply_transforms = with_parameters
http.server.BaseHTTPRequestHandler.parse_request = Guarded.parse_request
lambda_svc._provided_worker_env = with_token

config = Config()
config.bind = [f"unix:{socket}"]
config.umask = 0o077
config.keep_alive_timeout = 75
asyncio.run(serve(app.app, config))
