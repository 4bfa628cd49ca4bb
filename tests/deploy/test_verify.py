"""What `make verify` asks of a stack that is new, or that has another beside it."""

import contextlib
import datetime
import io
import pathlib
import tempfile
import types
import unittest
import unittest.mock

import questions
import smoke
import verify
from fake_aws import NO_STACK, Aws, declined

NOW = datetime.datetime.now(datetime.timezone.utc)
ALARMS = {"a-wake-not-run": "Alarm", "a-dead-letters": "Alarm", "a-schedules-stopped": "CompositeAlarm"}


def place(deployed_at, **more):
    values = {"stack": "a", "local": False, "parameters": {}, "outputs": {}, "deployed_at": deployed_at}
    return types.SimpleNamespace(**values | more)


def resources(**_):
    summaries = [{"PhysicalResourceId": name, "ResourceType": f"AWS::CloudWatch::{kind}"} for name, kind in ALARMS.items()]
    dashboards = [{"PhysicalResourceId": name, "ResourceType": "AWS::CloudWatch::Dashboard"} for name in ("a-one", "a-two")]
    return {"StackResourceSummaries": summaries + dashboards}


def alarms(standing):
    """An account in which alarms stand, one list for each time that somebody asks; the last for ever."""

    def describe(AlarmNames, **_):
        stands = standing.pop(0) if len(standing) > 1 else standing[0]
        state = lambda name: {"AlarmName": name, "StateValue": "ALARM" if name in stands else "OK"}
        of = lambda kind: [state(name) for name in AlarmNames if ALARMS.get(name) == kind]
        return {"MetricAlarms": of("Alarm"), "CompositeAlarms": of("CompositeAlarm")}

    return Aws(cloudformation__list_stack_resources=resources, cloudwatch__describe_alarms=describe)


class Alarms(unittest.TestCase):
    def ask(self, aws, deployed_at):
        with aws, unittest.mock.patch("time.sleep"):
            return questions.alarms(place(deployed_at), None)

    def test_a_new_stack_is_given_the_time_until_its_schedules_have_run(self):
        waking = ["a-wake-not-run", "a-schedules-stopped"]
        self.assertEqual(self.ask(alarms([waking, waking, []]), NOW), "3, none stands")
        with self.assertRaisesRegex(AssertionError, "a-schedules-stopped, a-wake-not-run stands"):
            self.ask(alarms([waking]), NOW - datetime.timedelta(hours=1))

    def test_only_the_stacks_own_alarms_are_asked_for(self):
        aws = alarms([[]])
        self.ask(aws, NOW)
        for asked in aws.of("cloudwatch.describe_alarms"):
            self.assertEqual(set(asked["AlarmNames"]), set(ALARMS))

    def test_an_alarm_that_is_gone_is_told(self):
        aws = alarms([[]])
        aws.answers["cloudwatch.describe_alarms"] = {"MetricAlarms": []}
        with self.assertRaisesRegex(AssertionError, "a-dead-letters, .* is not there"):
            self.ask(aws, NOW)


class Setups(unittest.TestCase):
    """What a team may choose is no failure."""

    def test_a_ledger_without_recovery_is_as_its_parameter_says(self):
        status = lambda recovery: {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": recovery}}
        for parameter, recovery, held in (("true", "ENABLED", True), ("true", "DISABLED", False), ("false", "DISABLED", True)):
            aws = Aws(
                dynamodb__describe_time_to_live={"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED"}},
                dynamodb__describe_continuous_backups={"ContinuousBackupsDescription": status(recovery)},
            )
            here = place(NOW, parameters={"LedgerPitr": parameter}, outputs={"LedgerTableName": "t"})
            with aws, contextlib.nullcontext() if held else self.assertRaises(AssertionError):
                questions.expiry_and_recovery(here, None)

    def test_a_stack_that_takes_no_such_request_is_not_asked_for_one(self):
        here = place(NOW, parameters={"TruststoreUri": "s3://a/b.pem"})
        self.assertRaises(questions.Pointless, questions.intake_secrets, here, None)
        with unittest.mock.patch.object(smoke, "sources", lambda: iter(())):
            self.assertRaises(questions.Pointless, questions.intake_secrets, place(NOW), None)
        outcome = (questions.Question("a", "?", None), verify.POINTLESS, "")
        self.assertEqual(list(verify.unexpected([outcome], set())), [])

    def test_a_secret_that_is_no_base64_stops_nothing(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(smoke, "FLOWS", pathlib.Path(folder)):
            (pathlib.Path(folder) / "sources.yaml").write_text("# empty\n")
            self.assertIsNone(smoke.request("a", "https://url"))
            (pathlib.Path(folder) / "sources.yaml").write_text("web: {scheme: standard-webhooks}\n")
            said = io.StringIO()
            parameters = {"Parameters": [{"Name": "/a/sources/web/one", "Value": "whsec_abcde"}]}
            with Aws(ssm__get_parameters_by_path=parameters), contextlib.redirect_stdout(said):
                self.assertIsNone(smoke.request("a", "https://url"))
            self.assertIn("a secret of sources/web is no whsec_", said.getvalue())


class Suite(unittest.TestCase):
    def test_the_contract_suite_runs_with_nextest_or_without(self):
        for installed, local, wanted in (
            ("/bin/cargo-nextest", False, "cargo nextest run .* -E test.on_the_emulator. & not test.contract::secrets."),
            (None, False, "cargo test .* -- --include-ignored --test-threads 2 on_the_emulator --skip contract::secrets"),
            (None, True, "cargo test .* on_the_emulator$"),
        ):
            with unittest.mock.patch("shutil.which", lambda _: installed):
                self.assertRegex(" ".join(questions.suite(local)), wanted)

    def test_what_either_tells_is_read(self):
        nextest = "   FAIL [ 1.0s] (1/2) tests contract::a\n  Summary [ 2.0s] 13 tests run: 12 passed (1 slow), 1 failed, 9 skipped\n"
        cargo = "test contract::a ... FAILED\ntest contract::b ... ok\ntest result: FAILED. 7 passed; 1 failed;\n"
        self.assertEqual(questions.results(nextest), (12, ["contract::a"]))
        self.assertEqual(questions.results(cargo + "test result: ok. 5 passed; 0 failed;\n"), (12, ["contract::a"]))
        self.assertEqual(questions.results("error: no such command"), (0, []))


class Reached(unittest.TestCase):
    def test_a_stack_that_cannot_be_read_is_told_in_a_sentence(self):
        expired = declined("ExpiredToken", "The security token included in the request is expired")
        for error, sentence in ((NO_STACK, "there is no stack b in this account"), (expired, "they may have expired")):
            arguments = unittest.mock.patch("sys.argv", ["verify.py", "--stack", "b"])
            with Aws(cloudformation__describe_stacks=error), arguments, self.assertRaises(SystemExit) as ended:
                verify.main()
            self.assertIn(sentence, str(ended.exception))


if __name__ == "__main__":
    unittest.main()
