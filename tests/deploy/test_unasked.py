"""Scripts that are run where no region or no credentials are set: each says what to set, and asks nobody."""

import os
import pathlib
import subprocess
import sys
import unittest

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "infra/deploy"
SCRIPTS = (
    ("deploy.py", "before", "--stack", "a"),
    ("deploy.py", "destroy", "--stack", "a", "--yes"),
    ("stack.py", "rollback", "--stack", "a", "--yes"),
    ("stack.py", "adopt", "--stack", "a", "--yes"),
    ("verify.py", "--stack", "a"),
)


def told(script, **more):
    """What a script says with nothing of AWS in its environment but this, and how it ends."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nowhere", **more}
    ran = subprocess.run([sys.executable, str(DEPLOY / script[0]), *script[1:]], env=environment, capture_output=True, text=True)
    return ran.stdout + ran.stderr, ran.returncode


class Unasked(unittest.TestCase):
    def test_each_names_the_variable_of_the_region(self):
        for script in SCRIPTS:
            words, code = told(script, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="a", AWS_ENDPOINT_URL="http://127.0.0.1:9")
            self.assertEqual(code, 1, words)
            self.assertNotIn("Traceback", words)
            self.assertIn("AWS_REGION=", words, script)

    def test_each_says_that_there_are_no_credentials(self):
        for script in SCRIPTS:
            words, code = told(script, AWS_DEFAULT_REGION="eu-central-1")
            self.assertEqual(code, 1, words)
            self.assertNotIn("Traceback", words)
            self.assertIn("there are no AWS credentials", words, script)


if __name__ == "__main__":
    unittest.main()
