"""What `make deploy` hands to SAM, and what it makes of what is deployed."""

import os
import pathlib
import shlex
import subprocess
import types
import unittest
import unittest.mock

from samcli.cli.types import CfnParameterOverridesType

import deploy
from fake_aws import NO_STACK, Aws

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_by_sam(command):
    """The parameters of a command of SAM, as SAM reads them."""
    begin = command.index("--parameter-overrides") + 1
    ends = [at for at in range(begin, len(command)) if command[at].startswith("--")]
    given = command[begin : ends[0] if ends else None]
    return CfnParameterOverridesType().convert(tuple(given), None, None)


def told_by_make(verb, *variables):
    """The commands that a verb of the Makefile would run, each as its words."""
    # The tests run below another make.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    command = ["make", "--dry-run", verb, "ARCH=arm64", *variables]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
    return [shlex.split(line) for line in ran.stdout.replace("\\\n", " ").splitlines()]


class Parameters(unittest.TestCase):
    def test_a_parameter_can_be_emptied_again(self):
        for written in ("TracesEndpoint=", 'TracesEndpoint=""'):
            variable = f"PARAMETERS={written} LogLevel=debug"
            (build,) = [words for words in told_by_make("build", variable) if "build" in words and "--template-file" in words]
            self.assertEqual(read_by_sam(build), {"Architecture": "arm64"})
            (run,) = [words for words in told_by_make("deploy", variable) if words[2:3] == ["run"]]
            wanted = deploy.named(run[run.index("Architecture=arm64") :], "parameters")
            self.assertEqual(wanted["TracesEndpoint"], "")
            self.assertEqual(read_by_sam(self.created(wanted)), {"Architecture": "arm64", "TracesEndpoint": "", "LogLevel": "debug"})

    def test_the_functions_are_built_for_the_architecture_that_is_deployed(self):
        commands = told_by_make("build", "PARAMETERS=Architecture=x86_64 TracesEndpoint=")
        (build,) = [words for words in commands if "build" in words and "--template-file" in words]
        self.assertEqual(read_by_sam(build), {"Architecture": "x86_64"})

    def test_a_stage_is_verified_and_not_the_local_cloud(self):
        verified = lambda *variables: [" ".join(words) for words in told_by_make("verify", *variables)][-1]
        self.assertTrue(verified("STAGE=staging").endswith("verify.py --stack ledgerline-staging"))
        self.assertTrue(verified("STACK=a").endswith("verify.py --stack a"))
        self.assertNotIn("verify.py", verified())

    def created(self, wanted):
        """The command of SAM that makes the change set."""
        asked = types.SimpleNamespace(stack="a", tags="")
        sam = unittest.mock.Mock(return_value=subprocess.CompletedProcess([], 0, "", ""))
        with Aws(cloudformation__describe_stacks=NO_STACK, cloudformation__list_change_sets={"Summaries": []}):
            with unittest.mock.patch("subprocess.run", sam):
                deploy.create(asked, wanted, "template.yaml")
        return sam.call_args.args[0]


if __name__ == "__main__":
    unittest.main()
