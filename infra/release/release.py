"""`make release`: everything that somebody needs who has neither Rust nor this checkout.

    python release.py --arch x86_64 --out target/release-packages [--only command] [--cargo-lambda .local/venv/bin/cargo-lambda]

One folder, and a zip of it: the functions as zips, the flows, a template that takes them, the command `ledgerline`, a bill of
materials (CycloneDX) and the checksums. Two builds of one commit have the same bytes, whatever the folder and the time: paths
are mapped, in C sources too, and archives have one time and one order.

It needs cargo and, but on macOS, cargo-lambda; of Python only the standard library.
"""

import argparse
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import uuid
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = ("intake", "processor", "replay")
LINUX = {"arm64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}
# The glibc that the command needs at most, as of Debian 10 and RHEL 8; and that of Amazon Linux 2023, which runs the functions.
COMMANDS_GLIBC, FUNCTIONS_GLIBC = "2.28", "2.34"
# The oldest time that a zip can hold.
TIME = (1980, 1, 1, 0, 0, 0)


def run(command, **options):
    print("+", " ".join(map(str, command)), file=sys.stderr, flush=True)
    return subprocess.run(list(map(str, command)), cwd=ROOT, check=True, **options)


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def version():
    return re.search(r'^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]


def commit():
    """The commit; with a mark where the checkout is not what it names."""
    changed = output("git", "status", "--porcelain", "--untracked-files=no")
    return output("git", "rev-parse", "HEAD") + ("-changed" if changed else "")


# ── The binaries ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def reproducible(target):
    """The environment in which no path of this machine gets into a binary."""
    cargo = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    sysroot = output("rustc", "--print", "sysroot")
    # The longest last: the last one that fits counts.
    if any(" " in path for path in (str(cargo), str(ROOT), sysroot)):
        sys.exit(f"nothing was released: flags of a C compiler take no path with a space, as one of {cargo}, {ROOT}, {sysroot}")
    mapped = {str(cargo): "/cargo", str(ROOT): "/ledgerline", sysroot: "/rust"}
    rust = [f"--remap-path-prefix={path}={name}" for path, name in sorted(mapped.items(), key=lambda it: len(it[0]))]
    c = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in mapped.items())
    return {
        **os.environ,
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(rust),
        **{f"{variable}{of}": c for variable in ("CFLAGS", "CXXFLAGS") for of in ("", "_" + target.replace("-", "_"))},
        "SOURCE_DATE_EPOCH": "315532800",
        "CARGO_INCREMENTAL": "0",
        "LEDGERLINE_COMMIT": commit(),
    }


def build_functions(asked, target):
    """The functions' binaries, by their names."""
    packages = [word for function in FUNCTIONS for word in ("--package", function)]
    # By its glibc: what zig builds for it runs on Amazon Linux 2023.
    command = [asked.cargo_lambda, "lambda", "build", "--release", "--locked", "--target", target, *packages]
    run(command, env=reproducible(target))
    built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "lambda"
    return {function: built / function / "bootstrap" for function in FUNCTIONS}


def command_build(cargo_lambda, target):
    """By zig where there is a glibc, as the functions: by this machine's own it would start on none that is older."""
    of = ["--release", "--locked", "--package", "ledgerline", "--bin", "ledgerline"]
    if not target.endswith("linux-gnu"):
        return ["cargo", "build", "--target", target, *of]
    # Its optimisations are for the processors of Lambda.
    return [cargo_lambda, "lambda", "build", "--disable-optimizations", "--target", f"{target}.{COMMANDS_GLIBC}", *of]


def build_command(asked, target):
    run(command_build(asked.cargo_lambda, target), env=reproducible(target))
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / target / "release/ledgerline"


def check_paths(binary):
    """A path of this machine in a binary would make its hash this machine's own."""
    content = binary.read_bytes()
    for path in (str(ROOT), str(pathlib.Path.home() / ".cargo")):
        if path.encode() in content:
            sys.exit(f"nothing was released: {binary.name} has the path {path} in it")


def check_glibc(binary, most):
    """The newest symbols of glibc that a binary wants say on which systems it starts."""
    versions = re.findall(rb"\x00GLIBC_(\d+)\.(\d+)", binary.read_bytes())
    newest = max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))
    if newest > tuple(map(int, most.split("."))):
        sys.exit(f"nothing was released: {binary.name} needs glibc {newest[0]}.{newest[1]}, and may need {most} at most")


# ── The package ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def pack(archive, files):
    """A zip of files, by the names in it: always in one order, of one time, by one compression."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for name, path in sorted(files.items()):
            info = zipfile.ZipInfo(name, TIME)
            info.create_system = 3
            executable = os.access(path, os.X_OK)
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            zipped.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def template(architecture):
    """The template, with the zips in the place of what `sam build` would build."""
    text = (ROOT / "infra/template.yaml").read_text()
    text = re.sub(r"^    Metadata:\n      BuildMethod: .*\n      BuildProperties:\n        Binary: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"CodeUri: \.\./functions/(\w+)", r"CodeUri: \1.zip", text)
    text = re.sub(r"(  Architecture:\n    Type: String\n    Default: )\w+", rf"\g<1>{architecture}", text)
    if "BuildMethod" in text or "../functions" in text or f"Default: {architecture}" not in text:
        sys.exit("nothing was released: the template has a function in a form that is not known here")
    return text


CONFIG = """# Where `sam deploy` puts it: the region and the credentials come from your environment.
version = 0.1

[default.deploy.parameters]
stack_name = "ledgerline"
template_file = "template.yaml"
capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
resolve_s3 = true
confirm_changeset = true
fail_on_empty_changeset = false
"""

README = """# Ledgerline {version}, {arch}

Built from {commit} by {rustc}. The SAM CLI and AWS credentials are all that you need:

    sha256sum --check SHA256SUMS
    # write your sources, integrations and flows into flows/, then
    ./ledgerline flows check flows
    ./ledgerline secrets set sources/<source>
    ./ledgerline deploying                 # holds back the alarms that a deploy disturbs
    sam deploy

Change the word behind `PARAMETERS:` in template.yaml whenever you change parameters alone: SAM publishes no version for that.

The sources, and all documents, are those of the commit: infra/docs/DEPLOY.md is for whoever deploys. This package has no
`make deploy`: before a first deploy, see there whether an earlier stack left tables (“Make a deleted stack again”).
"""


def assemble(folder, asked, binaries):
    for function in FUNCTIONS if binaries else ():
        pack(folder / f"{function}.zip", {"bootstrap": binaries[function]})
    if binaries:
        shutil.copytree(ROOT / "infra/flows", folder / "flows")
        (folder / "template.yaml").write_text(template(asked.arch))
        (folder / "samconfig.toml").write_text(CONFIG)
        (folder / "README.md").write_text(README.format(version=version(), arch=asked.arch, commit=commit(), rustc=output("rustc", "-V")))
    shutil.copy(ROOT / "LICENSE", folder)


def checksums(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


# ── The bill of materials ────────────────────────────────────────────────────────────────────────────────────────────────


def bill_of_materials(target):
    """Every crate that is linked, in CycloneDX, from what cargo resolved and what Cargo.lock has the hashes of."""
    told = json.loads(output("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target))
    packages = {package["id"]: package for package in told["packages"]}
    in_binaries = in_the_binaries(target)
    is_linked = lambda id: (packages[id]["name"], packages[id]["version"]) in in_binaries
    nodes = {node["id"]: list(filter(is_linked, linked(node))) for node in told["resolve"]["nodes"]}
    roots = [id for id in told["workspace_members"] if packages[id]["name"] in (*FUNCTIONS, "ledgerline")]
    reached, waiting = set(), list(roots)
    while waiting:
        id = waiting.pop()
        if id not in reached:
            reached.add(id)
            waiting += nodes[id]
    hashes = lock_hashes()
    reference = lambda id: f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}"
    parts = sorted(reached, key=reference)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "ledgerline", "name": "ledgerline", "version": version()}},
        "components": [component(packages[id], reference(id), hashes) for id in parts],
        "dependencies": [{"ref": "ledgerline", "dependsOn": sorted(map(reference, roots))}]
        + [{"ref": reference(id), "dependsOn": sorted(set(map(reference, nodes[id])))} for id in parts],
    }
    content = hashlib.sha256(json.dumps(bill, sort_keys=True).encode()).hexdigest()
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"
    return json.dumps(bill, indent=1) + "\n"


def linked(node):
    """What a crate is linked with: not what builds it or tests it."""
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]


def in_the_binaries(target):
    """Names and versions of what the released binaries are made of. `cargo metadata` resolves the tests' features, too."""
    of = [argument for name in (*FUNCTIONS, "ledgerline") for argument in ("--package", name)]
    told = output("cargo", "tree", "--locked", "--target", target, "--edges", "normal", "--prefix", "none", *of)
    return {tuple(line.split()[:2]) for line in told.replace(" v", " ").splitlines() if line}


def lock_hashes():
    blocks = (ROOT / "Cargo.lock").read_text().split("[[package]]")[1:]
    value = lambda block, key: (re.search(rf'^{key} = "([^"]+)"', block, re.MULTILINE) or [None, None])[1]
    return {(value(block, "name"), value(block, "version")): value(block, "checksum") for block in blocks}


def component(package, reference, hashes):
    part = {"type": "library", "bom-ref": reference, "name": package["name"], "version": package["version"], "purl": reference}
    if package.get("license"):
        part["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := hashes.get((package["name"], package["version"])):
        part["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return part


def host():
    told = output("rustc", "-vV")
    return re.search(r"^host: (.+)$", told, re.MULTILINE)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", required=True, choices=LINUX)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--only", choices=["command"], help="no functions: for systems that Lambda does not run")
    parser.add_argument("--cargo-lambda", default="cargo-lambda")
    asked = parser.parse_args()
    system = platform.system().lower().replace("darwin", "macos")
    target = LINUX[asked.arch]
    binaries = {} if asked.only else build_functions(asked, target)
    command = build_command(asked, host() if asked.only else target)
    for binary in (*binaries.values(), command):
        check_paths(binary)
        check_glibc(binary, COMMANDS_GLIBC if binary == command else FUNCTIONS_GLIBC)

    name = f"ledgerline-{version()}-{system}-{asked.arch}"
    folder = asked.out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    assemble(folder, asked, binaries)
    shutil.copy2(command, folder / "ledgerline")
    (folder / "sbom.cdx.json").write_text(bill_of_materials(host() if asked.only else target))
    checksums(folder)
    archive = asked.out / f"{name}.zip"
    pack(archive, {f"{name}/{path.relative_to(folder)}": path for path in folder.rglob("*") if path.is_file()})
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    (asked.out / f"{name}.zip.sha256").write_text(f"{digest}  {archive.name}\n")
    print(f"{digest}  {archive}")


if __name__ == "__main__":
    main()
