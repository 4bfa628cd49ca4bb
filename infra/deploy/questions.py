"""The questions of a verification. Each asserts what Ledgerline leans on, and returns in words what it saw."""

import base64
import concurrent.futures
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import threading
import time
import urllib.error
import urllib.request
from typing import Callable

import boto3
from botocore.exceptions import ClientError

import smoke
from scratch import routes, until, zipped
from stack import resources_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUESTIONS = []

# Says what it got, with the time, to a queue: a consumer that fails each message once, and wants it back in HELD seconds.
HELD = 8
CONSUMER = f"""
import boto3, json, os, time
sqs = boto3.client("sqs")
def handle(event, _):
    failures = []
    for record in event["Records"]:
        count = int(record["attributes"]["ApproximateReceiveCount"])
        told = {{"body": record["body"], "count": count, "at": time.time()}}
        sqs.send_message(QueueUrl=os.environ["TOLD"], MessageBody=json.dumps(told))
        if count == 1 and record["body"] == "fails once":
            sqs.change_message_visibility(
                QueueUrl=os.environ["ASKED"], ReceiptHandle=record["receiptHandle"], VisibilityTimeout={HELD}
            )
            failures.append({{"itemIdentifier": record["messageId"]}})
    return {{"batchItemFailures": failures}}
"""

# Answers with what API Gateway made of the request.
ECHO = """
import json
def handle(event, _):
    told = {key: event.get(key) for key in ("routeKey", "isBase64Encoded", "body", "pathParameters")}
    return {"statusCode": 200, "headers": {"content-type": "application/json"}, "body": json.dumps(told)}
"""

VERSION = "def handle(event, _):\n    return {number}\n"


class Unanswered(Exception):
    """The place cannot answer, for this reason."""


class Pointless(Exception):
    """This stack has nothing that the question is about, for this reason."""


@dataclasses.dataclass
class Question:
    id: str
    asked: str
    ask: Callable


def question(id, asked):
    return lambda ask: QUESTIONS.append(Question(id, asked, ask)) or ask


def percentiles(times):
    ordered = sorted(times)
    p50, p95 = statistics.median(ordered), ordered[max(0, round(len(ordered) * 0.95) - 1)]
    return f"median {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms of {len(ordered)}"


def timed(action, times):
    for number in range(times):
        began = time.perf_counter()
        action(number)
        yield time.perf_counter() - began


def post(url, body=b"{}", **headers):
    """The status and the body of an answer, whatever it is."""
    request = urllib.request.Request(url, data=body, headers={name.replace("_", "-"): it for name, it in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=15) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read()


def told(url, wanted, seconds=90):
    """So many messages of a queue, as JSON."""
    sqs, messages = boto3.client("sqs"), []

    def more():
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2)
        for message in answer.get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            messages.append(json.loads(message["Body"]))
        return len(messages) >= wanted

    until(more, seconds=seconds, every=0.1)
    return messages


# ── Tables and queues ────────────────────────────────────────────────────────────────────────────────────────────────────


@question("contract-suite", "Do DynamoDB, SQS and SSM hold the contract that the models hold?")
def contract_suite(place, scratch):
    tables = {name: scratch.table(f"{name.title()}Table", name) for name in ("ledger", "limits", "contacts")}
    variables = {f"LEDGERLINE_{name.upper()}_TABLE": table for name, table in tables.items()}
    prefix = f"{scratch.name}-contract"
    environment = {**os.environ, **variables, "LEDGERLINE_CONTRACT_PREFIX": prefix, "AWS_REGION": place.region}
    try:
        ran = subprocess.run(suite(place.local), cwd=ROOT, env=environment, capture_output=True, text=True)
    finally:
        sqs = boto3.client("sqs")
        for page in sqs.get_paginator("list_queues").paginate(QueueNamePrefix=prefix):
            for url in page.get("QueueUrls", []):
                sqs.delete_queue(QueueUrl=url)
    passed, failed = results(ran.stdout + ran.stderr)
    assert passed or failed, f"the suite did not run: {ran.stderr[-400:]}"
    assert ran.returncode == 0, ", ".join(failed)
    return f"{passed} passed"


def suite(local):
    """The command of the contract suite, by nextest where it is installed."""
    # It puts its secrets into the emulator alone.
    left_out = "" if local else "contract::secrets"
    # Few at a time: a busy machine answers late, and the adapters do not wait.
    threads = ["--test-threads", "2"]
    if shutil.which("cargo-nextest"):
        tests = "test(on_the_emulator)" + (f" & not test({left_out})" if left_out else "")
        return ["cargo", "nextest", "run", "--workspace", "--run-ignored", "all", "--no-fail-fast", *threads, "-E", tests]
    skipped = ["--skip", left_out] if left_out else []
    command = ["cargo", "test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]
    return [*command, "--", "--include-ignored", *threads, "on_the_emulator", *skipped]


def results(told):
    """How many tests passed, and which failed, as nextest or cargo tells it."""
    passed = re.findall(r"(?:tests? run:|test result: \w+\.) (\d+) passed", told)
    failed = re.findall(r"^\s*(?:FAIL|TIMEOUT)\b.*?(\S+)$|^test (\S+) \.\.\. FAILED$", told, re.MULTILINE)
    return sum(map(int, passed)), sorted({one or other for one, other in failed})


@question("write-units", "Does a row cost one write unit, and a transaction twice that?")
def write_units(place, scratch):
    dynamodb, table = boto3.client("dynamodb"), scratch.table("LedgerTable", "units")
    item = {"pk": {"S": "row"}, "sk": {"S": "row"}, "text": {"S": "x" * 800}}
    put = dynamodb.put_item(TableName=table, Item=item, ReturnConsumedCapacity="TOTAL")
    alone = put.get("ConsumedCapacity", {}).get("CapacityUnits")
    both = dynamodb.transact_write_items(
        TransactItems=[{"Put": {"TableName": table, "Item": item}}], ReturnConsumedCapacity="TOTAL"
    )
    transacted = sum(each["CapacityUnits"] for each in both.get("ConsumedCapacity", []))
    assert (alone, transacted) == (1, 2), f"{alone} and {transacted} units"
    writes = timed(lambda number: dynamodb.put_item(TableName=table, Item={**item, "sk": {"S": str(number)}}), 50)
    return f"{alone:.0f} and {transacted:.0f} units; a put takes {percentiles(list(writes))}"


@question("expired-rows-are-deleted", "Does the ledger expire its rows, and can it be restored to a moment?")
def expiry_and_recovery(place, scratch):
    dynamodb, table = boto3.client("dynamodb"), place.outputs["LedgerTableName"]
    expiry = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]["TimeToLiveStatus"]
    backups = dynamodb.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    recovery = backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
    if place.local and expiry != "ENABLED":
        raise Unanswered(f"the emulator leaves the time to live of a template {expiry}")
    wanted = "ENABLED" if place.parameters.get("LedgerPitr", "true") == "true" else "DISABLED"
    assert (expiry, recovery) == ("ENABLED", wanted), f"time to live {expiry}, recovery {recovery}"
    return "both are enabled" if wanted == "ENABLED" else "it expires them; LedgerPitr=false"


@question("receive-count-after-redrive", "How often was a dead letter received, after SQS moved it?")
def receive_count(place, scratch):
    sqs = boto3.client("sqs")
    dead, dead_arn = scratch.fifo("dead")
    policy = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 2})
    queue, _ = scratch.fifo("redriven", VisibilityTimeout="1", RedrivePolicy=policy)
    sqs.send_message(QueueUrl=queue, MessageBody="moved", MessageGroupId="g")

    def moved():
        sqs.receive_message(QueueUrl=queue)
        names = {"AttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
        return sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=1, **names).get("Messages")

    found = until(moved, seconds=60)
    assert found, "it was not moved within a minute"
    count, body = int(found[0]["Attributes"]["ApproximateReceiveCount"]), found[0]["Body"]
    assert body == "moved" and count >= 1, f"{body}, {count}"
    return f"{count} at its first receipt from the dead letter queue (2 before)"


@question("moved-back", "Does a message that is moved back from the dead letter queue come again?")
def moved_back(place, scratch):
    sqs = boto3.client("sqs")
    dead, dead_arn = scratch.fifo("dead-again")
    policy = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1})
    queue, _ = scratch.fifo("moved-back", VisibilityTimeout="1", RedrivePolicy=policy)
    sqs.send_message(QueueUrl=queue, MessageBody="back", MessageGroupId="g")

    def is_dead():
        sqs.receive_message(QueueUrl=queue)
        counted = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"])
        return int(counted["Attributes"]["ApproximateNumberOfMessages"])

    assert until(is_dead, seconds=60, every=1.5), "it did not die within a minute"
    try:
        sqs.start_message_move_task(SourceArn=dead_arn)
    except ClientError as error:
        if place.local:
            raise Unanswered(f"the emulator has no StartMessageMoveTask ({error.response['Error']['Code']})") from error
        raise
    names = {"AttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
    found = until(lambda: sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2, **names).get("Messages"), seconds=90)
    assert found, "it did not come back"
    return f"yes, counted as received {found[0]['Attributes']['ApproximateReceiveCount']} times"


@question("noncharacter", "What becomes of U+FFFE in a message? The intake refuses it at the door, whatever it is.")
def noncharacter(place, scratch):
    sqs = boto3.client("sqs")
    queue, _ = scratch.fifo("noncharacter")
    try:
        sqs.send_message(QueueUrl=queue, MessageBody="a\ufffeb", MessageGroupId="g")
    except ClientError as error:
        return f"refused: {error.response['Error']['Code']}"
    found = until(lambda: sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=2).get("Messages"), seconds=30)
    assert found, "it was taken, and never came"
    came = found[0]["Body"]
    return "kept" if came == "a\ufffeb" else f"replaced: {came.encode('unicode_escape').decode()}"


@question("dead-letter-queue-of-another-kind", "Does SQS refuse a standard queue as the dead letter queue of a FIFO queue?")
def other_kind(place, scratch):
    _, arn = scratch.queue("standard")
    try:
        scratch.fifo("of-another-kind", RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3}))
    except ClientError as error:
        return f"yes: {error.response['Error']['Code']}"
    if place.local:
        raise Unanswered("the emulator takes it")
    raise AssertionError("it was taken")


# ── Functions ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@question("visibility-after-partial-failure", f"Is a visibility of {HELD} s kept for a message that is reported as failed?")
def visibility(place, scratch):
    sqs = boto3.client("sqs")
    seen, seen_arn = scratch.queue("seen")
    queue, arn = scratch.fifo("consumed", VisibilityTimeout="60")
    consume = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
    function = scratch.function(
        "consumer",
        CONSUMER,
        {"Effect": "Allow", "Action": consume, "Resource": arn},
        {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": seen_arn},
        TOLD=seen,
        ASKED=queue,
    )
    scratch.consumes(function, arn)
    for body, group in (("fails once", "a"), ("behind it", "a"), ("beside it", "b")):
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId=group)
    messages = told(seen, wanted=4)
    failed = [each for each in messages if each["body"] == "fails once"]
    assert len(failed) == 2, f"the failed message came {len(failed)} times"
    waited = failed[1]["at"] - failed[0]["at"]
    assert HELD - 1 <= waited <= 4 * HELD, f"it came back after {waited:.1f} s"
    return f"it came back after {waited:.1f} s (the queue's own is 60 s), received {failed[1]['count']} times"


@question("update-under-load", "Does an alias that moves to another version under load lose or fail an invocation?")
def update_under_load(place, scratch):
    aws = boto3.client("lambda")
    function = scratch.function("updated", VERSION.format(number=1))

    def publish():
        aws.get_waiter("function_updated_v2").wait(FunctionName=function)
        return aws.publish_version(FunctionName=function)["Version"]

    def load():
        while not stop.is_set():
            answer = aws.invoke(FunctionName=function, Qualifier="live", Payload=b"{}")
            seen.append(answer["Payload"].read().decode() if "FunctionError" not in answer else "failed")

    stop, seen = threading.Event(), []
    aws.create_alias(FunctionName=function, Name="live", FunctionVersion=publish())
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(load) for _ in range(4)]
        try:
            assert until(lambda: len(seen) > 20), "the first version does not answer"
            aws.update_function_code(FunctionName=function, ZipFile=zipped(VERSION.format(number=2)))
            aws.update_alias(FunctionName=function, Name="live", FunctionVersion=publish())
            # An alias is believed for some seconds.
            assert until(lambda: seen[-20:] == ["2"] * 20), f"the last answers are {seen[-20:]}"
        finally:
            stop.set()
        for worker in workers:
            worker.result()
    assert seen[0] == "1" and set(seen) == {"1", "2"}, f"answers: {sorted(set(seen))}"
    return f"no: {seen.count('1')} answers of one version and {seen.count('2')} of the other, none failed"


@question("cold-starts", "How long do the functions take to start?")
def cold_starts(place, scratch):
    logs, since = boto3.client("logs"), datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    times = []
    for function in ("intake", "processor", "replay", "console"):
        group = f"/ledgerline/{place.stack}/{function}"
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=group,
            startTime=int(since.timestamp() * 1000),
            filterPattern='"Init Duration"',
            PaginationConfig={"MaxItems": 500},
        )
        for event in (event for page in pages for event in page["events"]):
            after = event["message"].split("Init Duration:")
            if len(after) == 2:
                times.append(float(after[1].split()[0]) / 1000)
    if not times:
        raise Unanswered("no REPORT line of the last day has an Init Duration")
    return percentiles(times)


# ── The front door ───────────────────────────────────────────────────────────────────────────────────────────────────────


def own_api(place, scratch):
    if place.local:
        raise Unanswered("our own gateway stands in for HTTP APIs, by the rules of AWS's documentation")
    if not hasattr(scratch, "url"):
        scratch.url = scratch.api(scratch.function("echo", ECHO))
        assert until(lambda: post(f"{scratch.url}/v1/events/web")[0] == 200, seconds=60), "the API does not answer"
    return scratch.url


@question("batch-route-precedence", "Does `/batch` go to its own route, and not to the one with a type?")
def batch_route(place, scratch):
    url, wanted = own_api(place, scratch), routes()
    called = {"web": "Event", "web/batch": "Batch", "web/lead": "TypedEvent", "web/orders/paid": "TypedEvent"}
    taken = {path: json.loads(post(f"{url}/v1/events/{path}")[1])["routeKey"] for path in called}
    assert taken == {path: wanted[event] for path, event in called.items()}, taken
    return "yes, and a type with a slash to the one with a type"


@question("base64-by-content-type", "Which content types arrive in base64, and are the bytes the same?")
def base64_by_content_type(place, scratch):
    url, encoded = own_api(place, scratch), {}
    body = json.dumps({"name": "Zoë"}).encode()
    for kind in ("application/json", "application/cloudevents+json", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream"):
        answer = json.loads(post(f"{url}/v1/events/web", body, content_type=kind)[1])
        came = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"].encode()
        assert came == body, f"{kind}: {came!r}"
        encoded[kind] = answer["isBase64Encoded"]
    return ", ".join(f"{kind} {'yes' if it else 'no'}" for kind, it in encoded.items())


# ── The stack ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@question("intake-reaches-its-secrets", "Can the intake read its sources' secrets (SSM, and KMS if there is a key)?")
def intake_secrets(place, scratch):
    if place.parameters.get("TruststoreUri"):
        raise Pointless("mutual TLS: only clients with a certificate get to the intake")
    if not list(smoke.sources()):
        raise Pointless("no source is a standard-webhooks, by which the request would be signed")
    signed = smoke.request(place.stack, place.url)
    assert signed, "no source with standard-webhooks has a secret: `ledgerline secrets set sources/<source>`, and verify again"
    url, headers = signed
    status, text = post(url, smoke.BODY.encode(), **headers)
    assert (status, smoke.RIGHT[1] in text.decode()) == (smoke.RIGHT[0], True), f"a good signature was answered {status}"
    answers, forged = set(), {**headers, "webhook-signature": "v1,AAAA"}
    times = list(timed(lambda _: answers.add(post(url, smoke.BODY.encode(), **forged)[0]), 20))
    # Without its secrets the intake would answer 503.
    assert answers == {401}, f"a wrong signature was answered {sorted(answers)}"
    return f"yes: a good signature is believed, and a wrong one refused (401), {percentiles(times)}"


@question("secret-under-its-key", "Is a SecureString under the stack's key read as it was written?")
def secret(place, scratch):
    key, value = place.parameters.get("SecretsKeyArn", ""), "verified \u00e9"
    name = scratch.parameter("secret/one", value, key)
    path = name.rsplit("/", 1)[0]
    found = boto3.client("ssm").get_parameters_by_path(Path=path, WithDecryption=True)["Parameters"]
    assert [each["Value"] for each in found] == [value], f"{len(found)} parameters"
    return f"yes, under {'a key of its own' if key else 'aws/ssm'}"


@question("dashboards", "Are both dashboards there, and does the viewers' widget answer?")
def dashboards(place, scratch):
    cloudwatch = boto3.client("cloudwatch")
    names = resources_of(place.stack, "AWS::CloudWatch::Dashboard")
    assert len(names) == 2, f"there are {names}"
    for name in names:
        assert json.loads(cloudwatch.get_dashboard(DashboardName=name)["DashboardBody"])["widgets"], f"{name} is empty"
    # As CloudWatch asks a custom widget.
    shown = {"page": "overview", "widgetContext": {"dashboardName": f"{place.stack}-{place.region}-view", "params": {"page": "overview"}}}
    answer = boto3.client("lambda").invoke(FunctionName=f"{place.stack}-console", Payload=json.dumps(shown))
    page = answer["Payload"].read().decode()
    assert "FunctionError" not in answer and "<" in page, page[:200]
    return f"{' and '.join(names)}; the widget answers with {len(page)} characters"


@question("replay-answers", "Does the replay function answer an operator?")
def replay_answers(place, scratch):
    aws, name = boto3.client("lambda"), place.outputs["ReplayFunctionName"]

    def ask(_):
        answer = aws.invoke(FunctionName=name, Payload=b'{"op": "list", "limit": 1}')
        assert "FunctionError" not in answer, answer["Payload"].read()[:300]

    return percentiles(list(timed(ask, 5)))


# By then each schedule has run after a deploy that began it, and the alarms that listen to them have heard it.
FIRST_RUNS = datetime.timedelta(minutes=20)


def standing(names):
    """Those of the alarms that stand."""
    cloudwatch = boto3.client("cloudwatch")
    kinds = {"AlarmTypes": ["MetricAlarm", "CompositeAlarm"]}
    asked = [cloudwatch.describe_alarms(AlarmNames=names[at : at + 100], **kinds) for at in range(0, len(names), 100)]
    found = [alarm for answer in asked for kind in ("MetricAlarms", "CompositeAlarms") for alarm in answer.get(kind, [])]
    missing = set(names) - {alarm["AlarmName"] for alarm in found}
    assert not missing, f"{', '.join(sorted(missing))} is not there"
    return sorted(alarm["AlarmName"] for alarm in found if alarm["StateValue"] == "ALARM")


@question("alarms", "Are the alarms there, and does none stand?")
def alarms(place, scratch):
    # Not by the start of their names: another stack's name may begin with this one's.
    names = [name for kind in ("Alarm", "CompositeAlarm") for name in resources_of(place.stack, f"AWS::CloudWatch::{kind}")]
    assert place.parameters.get("Alarms") == "false" or names, "there is none"
    if place.local:
        raise Unanswered("the emulator takes those on one metric, and judges none by its treatment of missing data")
    left = FIRST_RUNS - (datetime.datetime.now(datetime.timezone.utc) - place.deployed_at)
    until(lambda: not standing(names), seconds=left.total_seconds(), every=15)
    stands = standing(names)
    assert not stands, f"{', '.join(stands)} stands"
    return f"{len(names)}, none stands"
