"""What `make verify` asks of a stack that is new, or that has another beside it."""

import datetime
import types
import unittest
import unittest.mock

import questions
from fake_aws import Aws

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


if __name__ == "__main__":
    unittest.main()
