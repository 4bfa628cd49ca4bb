"""`make deploy` and `make destroy` at a terminal: what is asked, what follows, and what nobody without a terminal is asked."""

import contextlib
import http.server
import io
import json
import os
import subprocess
import sys
import threading
import unittest
import unittest.mock

import deploy
import look
import stack
from fake_aws import NO_STACK, Aws, not_found
from terminal import at_a_terminal

CALLED = "sh -c 'echo CALLED $*' x"
TOPIC = "arn:aws:sns:us-east-1:123456789012:pages"
OUTPUTS = [{"OutputKey": "Url", "OutputValue": "https://url"}, {"OutputKey": "ConsoleUrl", "OutputValue": "https://console"}]
SECRET = {"Name": "/a/sources/web-forms/one", "Value": "whsec_b3RoZXIgc3RhY2sncyBzZWNyZXQgb3RoZXIgc3RhY2s="}


def stack_in(state):
    described = {"StackName": "a", "StackStatus": state, "Outputs": OUTPUTS, "Parameters": [], "Tags": []}
    return {"Stacks": [described]}


def account(state="UPDATE_COMPLETE", changes=()):
    """An account with the stack `a` in a state, or without it, where a deploy would do these changes."""
    return Aws(
        cloudformation__describe_stacks=stack_in(state) if state else NO_STACK,
        cloudformation__describe_change_set={"Changes": [{"ResourceChange": change} for change in changes]},
        cloudformation__describe_stack_events={"StackEvents": []},
        cloudformation__delete_change_set={},
        cloudformation__delete_stack={},
        cloudformation__execute_change_set=lambda **_: print("EXECUTED") or {},
        cloudformation__list_stack_resources={"StackResourceSummaries": [resource("LedgerTable", "a-LedgerTable-1")]},
        dynamodb__list_tables={"TableNames": []},
        lambda__get_account_settings={"AccountLimit": {"ConcurrentExecutions": 10}},
        lambda__get_function_configuration=not_found("lambda"),
        sqs__list_queues={},
        ssm__get_parameters_by_path={"Parameters": [SECRET]},
        ssm__get_service_setting={"ServiceSetting": {"SettingValue": "false"}},
        sts__get_caller_identity={"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/ada"},
    )


def resource(logical_id, name):
    return {"LogicalResourceId": logical_id, "PhysicalResourceId": name, "ResourceType": "AWS::DynamoDB::Table"}


def change(action, logical_id="LedgerTable", kind="AWS::DynamoDB::Table", **more):
    return {"Action": action, "LogicalResourceId": logical_id, "ResourceType": kind, **more}


def script(aws, *arguments, **replaced):
    """The work of the script with these arguments, where nothing is built."""
    replaced = {"pinned": lambda *_: contextlib.nullcontext("template"), "create": created, **replaced}

    def work():
        # The fake knows no states in between.
        environment = {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
        with contextlib.ExitStack() as patches:
            patches.enter_context(aws)
            patches.enter_context(unittest.mock.patch.dict(os.environ, environment))
            for name, it in replaced.items():
                patches.enter_context(unittest.mock.patch.object(deploy, name, it))
            patches.enter_context(unittest.mock.patch.object(look, "tools", lambda _: None))
            patches.enter_context(unittest.mock.patch.object(stack, "keep", lambda _: None))
            verb, *rest = arguments
            ours = ["--ledgerline", CALLED] if verb != "destroy" else []
            sys.argv = ["deploy.py", verb, "--stack", "a", *ours, *rest]
            deploy.main()

    return work


def created(asked, wanted, template):
    print(f"WANTED {json.dumps(wanted, sort_keys=True)}")
    return "arn:change-set"


def without_terminal(work):
    """The same in CI: what was said, and the exit code."""
    out, code = io.StringIO(), 0
    with contextlib.redirect_stdout(out), unittest.mock.patch.dict(os.environ, {"CI": "true"}):
        try:
            work()
        except SystemExit as ended:
            code = 1
            print(ended.code)
    return out.getvalue(), code


class Api(http.server.BaseHTTPRequestHandler):
    """Refuses what no flow takes, as the intake does."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(422)
        self.end_headers()
        self.wfile.write(b'{"type":"urn:ledgerline:problem:unknown-type"}')

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Clock:
    """A clock that goes on only while somebody sleeps, and a minute each time."""

    now = 0

    def monotonic(self):
        return self.now

    def sleep(self, _):
        self.now += 60


class Deploys(unittest.TestCase):
    maxDiff = None

    def test_a_deploy_goes_on_when_somebody_agrees_and_sends_its_smoke_if_told(self):
        with serving(Api) as url:
            work = script(account(), "run", "--template", "t", "--url", url)
            shown, code = at_a_terminal(work, ("Deploy this to a? [y/N]", "y"), ("Send it? [y/N]", "y"))
        self.assertEqual(code, 0, shown)
        for sentence in ("EXECUTED", "curl -i", "It works: the API, the intake, its secrets and its flows"):
            self.assertIn(sentence, shown)

    def test_a_deploy_is_counted_again_while_it_lasts_but_not_for_ever(self):
        # The slowest rollout, and one that hangs: minutes, and when it is counted.
        for lasts, expected in ((4, [0]), (22, [0, 5, 10, 15, 20]), (120, [0, 5, 10, 15, 20, 25, 30, 35, 40])):
            clock, counted, begun = Clock(), [], []

            def ledgerline(asked, *arguments, **_):
                counted.append(clock.now // 60)
                self.assertEqual(arguments, ("--stack", "a", "deploying"))

            aws = account()
            aws.answers["cloudformation.execute_change_set"] = lambda **_: begun.append("it") or {}
            lasting = lambda: begun and clock.now < 60 * lasts
            state = lambda **_: stack_in("UPDATE_IN_PROGRESS" if lasting() else "UPDATE_COMPLETE")
            aws.answers["cloudformation.describe_stacks"] = state
            work = script(aws, "run", "--template", "t", "--yes", time=clock, ledgerline=ledgerline)
            shown, code = without_terminal(work)
            self.assertEqual((code, counted), (0, expected), shown)

    def test_a_deploy_that_nobody_agrees_to_changes_nothing(self):
        shown, code = at_a_terminal(script(account(), "run", "--template", "t"), ("Deploy this to a? [y/N]", ""))
        self.assertEqual((code, "EXECUTED" in shown, "you did not say yes" in shown), (1, False, True), shown)

    def test_what_takes_a_table_away_wants_the_stacks_name(self):
        aws = lambda: account(changes=[change("Remove")])
        asks = "This would delete LedgerTable (DynamoDB::Table). Type the stack's name"
        for typed, executed in (("y", False), ("ab", False), ("a", True)):
            replies = [(asks, typed)] + [("Send it?", "n")] * executed
            shown, code = at_a_terminal(script(aws(), "run", "--template", "t"), *replies)
            self.assertEqual(("EXECUTED" in shown, code == 0), (executed, executed), shown)
        shown, code = without_terminal(script(aws(), "run", "--template", "t"))
        self.assertEqual((code, "REPLACE=1" in shown, "EXECUTED" in shown), (1, True, False), shown)
        shown, code = without_terminal(script(aws(), "run", "--template", "t", "--replace"))
        self.assertEqual((code, "EXECUTED" in shown), (0, True), shown)

    def test_a_table_that_is_perhaps_replaced_is_a_danger_and_a_function_is_none(self):
        perhaps = change("Modify", Replacement="Conditional")
        shown, code = without_terminal(script(account(changes=[perhaps]), "run", "--template", "t"))
        self.assertEqual((code, "perhaps replace LedgerTable" in shown), (1, True), shown)
        other = change("Modify", "Intake", "AWS::Lambda::Function", Replacement="Conditional")
        self.assertEqual(without_terminal(script(account(changes=[other]), "run", "--template", "t"))[1], 0)

    def test_the_first_deploy_asks_for_topics_and_concurrency_and_ci_is_asked_nothing(self):
        typed = [("PageTopicArn", "no-arn"), ("that is none", TOPIC), ("TicketTopicArn", ""), ("[10]", "")]
        shown, _ = at_a_terminal(script(account(None), "run", "--template", "t"), *typed, ("Deploy this to a?", "n"))
        wanted = {"AccountConcurrency": "10", "PageTopicArn": TOPIC, "TicketTopicArn": TOPIC}
        self.assertIn(f"WANTED {json.dumps(wanted, sort_keys=True)}", shown)
        none = [("PageTopicArn", ""), ("TicketTopicArn", ""), ("[10]", "1000"), ("Deploy this to a?", "n")]
        shown, _ = at_a_terminal(script(account(None), "run", "--template", "t"), *none)
        self.assertIn('WANTED {"AccountConcurrency": "1000"}', shown)
        self.assertIn("no topic is told of alarms", shown)
        named = script(account(None), "run", "--template", "t", "AlarmTopicArn=x", "AccountConcurrency=1")
        self.assertNotIn("TopicArn,", at_a_terminal(named, ("Deploy this to a?", "n"))[0])
        shown, _ = without_terminal(script(account(None), "run", "--template", "t"))
        self.assertIn("WANTED {}", shown)

    def test_a_first_deploy_cannot_protect_what_could_not_be_taken_back(self):
        for verb in (["before"], ["run", "--template", "t"]):
            shown, code = without_terminal(script(account(None), *verb, "DeletionProtection=true"))
            self.assertEqual((code, "is for the second deploy" in shown), (1, True), shown)
        self.assertEqual(without_terminal(script(account(), "run", "--template", "t", "DeletionProtection=true"))[1], 0)

    def test_a_deploy_that_begins_the_schedules_holds_their_alarms_back_until_they_have_run(self):
        calls = lambda asked, *arguments, **_: print("CALLED", *arguments)
        for made, times in (("WakeNotRun", 2), ("ApiSlow", 1)):
            aws = account(changes=[change("Add", made, "AWS::CloudWatch::Alarm")])
            shown, code = without_terminal(script(aws, "run", "--template", "t", ledgerline=calls))
            said = [line for line in shown.splitlines() if line in ("EXECUTED", "CALLED --stack a deploying")]
            self.assertEqual((code, said.count("CALLED --stack a deploying")), (0, times), shown)
            self.assertEqual((said.index("EXECUTED"), len(said)), (1, times + 1), "before the deploy, and after it")

    def test_how_a_deploy_failed_says_what_is_left(self):
        for state, sentence in (
            ("UPDATE_ROLLBACK_COMPLETE", "The stack is as it was before"),
            ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback --stack-name a"),
            ("ROLLBACK_FAILED", "make destroy STACK=a"),
            ("ROLLBACK_COMPLETE", "Nothing of the first deploy is left"),
        ):
            shown, code = without_terminal(script(account(state), "run", "--template", "t"))
            self.assertEqual((code, sentence in shown), (1, True), shown)


class Before(unittest.TestCase):
    def test_the_first_time_it_asks_for_stage_and_secrets(self):
        aws = account(None)
        aws.answers["ssm.get_parameters_by_path"] = {"Parameters": []}
        secrets = [("Put it now?", "y"), ("Make a random one?", "y"), ("Put it now?", "n")]
        typed = [("Which stage is it: dev, staging, prod, or none? [none]", ""), *secrets]
        owners = len(list(look.names("sources.yaml"))) + len(list(look.names("integrations.yaml")))
        typed += [("Put it now?", "")] * (owners - 2) + [("Build and go on?", "y")]
        shown, code = at_a_terminal(script(aws, "before"), *typed)
        self.assertEqual(code, 0, shown)
        self.assertRegex(shown, r"CALLED --stack a secrets set sources/[a-z-]+ --generate")
        shown, code = at_a_terminal(script(account(None), "before"), ("Which stage", "staging"))
        self.assertEqual((code, "make deploy STAGE=staging" in shown), (1, True), shown)

    def test_a_secret_is_put_under_the_key_that_the_stack_has_or_gets(self):
        key = "arn:aws:kms:us-east-1:123456789012:key/one"
        typed = [("Put it now?", "y"), ("Make a random one?", "n")]
        for kept, named in (({"SecretsKeyArn": key}, []), ({}, [f"SecretsKeyArn={key}"])):
            aws = account()
            described = [{"ParameterKey": name, "ParameterValue": value} for name, value in kept.items()]
            aws.answers["cloudformation.describe_stacks"]["Stacks"][0]["Parameters"] = described
            aws.answers["ssm.get_parameters_by_path"] = {"Parameters": []}
            one = unittest.mock.patch.object(look, "names", lambda file: ["web-forms"] if file == "sources.yaml" else [])
            with one:
                shown, code = at_a_terminal(script(aws, "before", *named), *typed, ("Build and go on?", "y"))
            self.assertIn(f"CALLED --stack a secrets set sources/web-forms --key {key}", shown)
            self.assertEqual(code, 0, shown)

    def test_an_existing_stack_is_told_its_quotas(self):
        shown, code = without_terminal(script(account(), "before"))
        self.assertEqual(code, 0, shown)
        for sentence in ("Lambda runs 10 at once", "name AccountConcurrency=10", "SSM answers 40 requests a second"):
            self.assertIn(sentence, shown)
        self.assertNotIn("The first deploy", shown)

    def test_flows_that_make_effects_happen_again_are_agreed_to_or_named(self):
        @contextlib.contextmanager
        def folder(_):
            yield "deployed"

        compared = lambda *_, **__: subprocess.CompletedProcess([], 3, "DONE AGAIN\n", "")
        work = lambda *more: script(account(), "before", *more, ledgerline=compared, missing_secrets=lambda *_: None)
        with unittest.mock.patch.object(look, "deployed_flows", folder):
            asked = ("Is that meant? [y/N]", "n")
            shown, code = at_a_terminal(work(), asked)
            self.assertEqual((code, "DONE AGAIN" in shown), (1, True), shown)
            shown, code = at_a_terminal(work(), (asked[0], "y"), ("Build and go on?", "y"))
            self.assertEqual(code, 0, shown)
            shown, code = without_terminal(work())
            self.assertEqual((code, "make deploy RISKY=1" in shown), (1, True), shown)
            self.assertEqual(without_terminal(work("--risky"))[1], 0)

    def test_flows_that_cannot_be_compared_are_deployed_only_if_that_is_meant(self):
        shown, code = without_terminal(script(account(), "before"))
        self.assertEqual((code, "cannot be compared" in shown), (0, False), f"no flows are deployed: {shown}")
        denied = stack.ClientError({"Error": {"Code": "AccessDenied"}}, "Get")
        layers = {"Layers": [{"Arn": "arn:aws:lambda:us-east-1:123456789012:layer:a-flows:7"}]}
        cases = {
            "nobody may ask": {"lambda.get_function_configuration": denied},
            "its layer is gone": {
                "lambda.get_function_configuration": layers,
                "lambda.get_layer_version_by_arn": not_found("lambda"),
            },
            "it has no layer": {"lambda.get_function_configuration": {}},
        }
        for what, answers in cases.items():
            work = lambda *more: script(aws_with(answers), "before", *more)
            shown, code = without_terminal(work())
            told = "the deployed flows cannot be compared" in shown and "make deploy RISKY=1" in shown
            self.assertEqual((code, told), (1, True), f"{what}: {shown}")
            self.assertEqual(without_terminal(work("--risky"))[1], 0, what)
            shown, code = at_a_terminal(work(), ("Is that meant? [y/N]", "n"))
            self.assertEqual(code, 1, f"{what}: {shown}")


def aws_with(answers):
    aws = account()
    aws.answers |= answers
    return aws


class Destroy(unittest.TestCase):
    def test_a_stack_is_deleted_by_its_name_alone(self):
        for typed, code in (("y", 1), ("a", 0)):
            shown, ended = at_a_terminal(script(account(), "destroy"), ("Type the stack's name to delete it:", typed))
            self.assertEqual((ended, "aws dynamodb delete-table" in shown), (code, code == 0), shown)
            self.assertEqual("delete-layer-version --layer-name a-flows --version-number" in shown, code == 0, shown)

    def test_it_waits_for_an_hour(self):
        aws = account()
        without_terminal(script(aws, "destroy", "--yes", "--poll", "10"))
        (waited,) = aws.of("cloudformation.wait.stack_delete_complete")
        self.assertEqual(waited["WaiterConfig"], {"Delay": 10, "MaxAttempts": 360})


@unittest.skipUnless("LEDGERLINE" in os.environ, "the command is not built")
class Secret(unittest.TestCase):
    def test_what_is_typed_at_the_prompt_is_not_shown(self):
        put = []

        class Store(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                put.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"Parameters": [], "Version": 1}')

            def log_message(self, *_):
                pass

        with serving(Store) as url:
            keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
            environment = {**os.environ, **keys, "AWS_ENDPOINT_URL": url, "AWS_CONFIG_FILE": "/dev/null"}
            command = [os.environ["LEDGERLINE"], "--stack", "a", "secrets", "set", "integrations/crm"]
            typed = ("what you type is not shown", "canary-7f3a")
            shown, code = at_a_terminal(lambda: os.execve(command[0], command, environment), typed)
        self.assertEqual((code, "canary-7f3a" in shown), (0, False), shown)
        self.assertEqual([each["Value"] for each in put if "Value" in each], ["canary-7f3a"])


if __name__ == "__main__":
    unittest.main()
