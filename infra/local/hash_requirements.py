"""Writes the hashes of every package into the lists of required packages beside this file.

Run it after a version was changed: `.local/venv/bin/python infra/local/hash_requirements.py`. It asks the index that pip
is configured with, and keeps the files for the systems that the local cloud runs on.
"""

import pathlib
import re
import subprocess
import sys
import urllib.parse
import urllib.request

from pip._internal.models.index import PyPI

UNUSED = re.compile(
    r"win32|win_|-pp\d|-cp2\d|-cp3[5-9]-|i686|armv|ppc64|s390x|riscv|loongarch|wasm|ios_|android|graalpy|"
    r"\.exe$|\.egg$|\.asc$|\.metadata$"
)


def index():
    told = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    return (told.stdout.strip() or PyPI.simple_url).rstrip("/")


def files(name):
    """Each file of a package, with its hash, as the index lists them."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    page = urllib.request.urlopen(f"{index()}/{normal}/").read().decode()
    for link in re.findall(r'href="([^"]+)"', page):
        path, _, fragment = link.partition("#")
        if fragment.startswith("sha256="):
            yield urllib.parse.unquote(path.rsplit("/", 1)[-1]), fragment.removeprefix("sha256=")


def hashes(name, version):
    plain = lambda text: re.sub(r"[-_.]+", "_", text).lower()
    wheel = re.compile(rf"^{re.escape(plain(name))}-{re.escape(version)}(-.*\.whl|\.tar\.gz|\.zip)$", re.IGNORECASE)
    found = set()
    for file, digest in files(name):
        stem = re.match(r"^(.+?)(-\d.*)$", file)
        if stem and wheel.match(plain(stem[1]) + stem[2]) and not UNUSED.search(file):
            found.add(digest)
    if not found:
        sys.exit(f"The index has no file of {name} {version}.")
    return sorted(found)


def renew(path):
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("--hash")]
    written = []
    for line in lines:
        required = line.rstrip(" \\")
        if required and not required.startswith("#"):
            name, _, version = required.partition("==")
            required += "".join(f" \\\n    --hash=sha256:{digest}" for digest in hashes(name, version))
        written.append(required)
    path.write_text("\n".join(written) + "\n")


for list_of in sorted(pathlib.Path(__file__).parent.glob("requirements*.txt")):
    renew(list_of)
