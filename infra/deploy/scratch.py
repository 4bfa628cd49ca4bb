"""Resources that a verification makes for itself, and takes away again in the end."""

import contextlib
import io
import json
import pathlib
import time
import zipfile

import boto3
from botocore.exceptions import ClientError
from samcli.yamlhelper import yaml_parse

TEMPLATE = pathlib.Path(__file__).resolve().parents[1] / "template.yaml"

TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


def until(found, seconds=120, every=0.5):
    """Asks until there is an answer that is not empty; `None` if there is none in time."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        answer = found()
        if answer:
            return answer
        time.sleep(every)
    return None


def routes():
    """The routes of the intake as the template has them, by the names of its events."""
    events = yaml_parse(TEMPLATE.read_text())["Resources"]["IntakeFunction"]["Properties"]["Events"]
    return {name: f"{event['Properties']['Method']} {event['Properties']['Path']}" for name, event in events.items()}


def zipped(source):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo("handler.py", (1980, 1, 1, 0, 0, 0))
        info.external_attr = 0o644 << 16
        archive.writestr(info, source)
    return file.getvalue()


class Scratch(contextlib.ExitStack):
    """What was made is deleted when the stack of this object unwinds, the newest first. A deletion that fails is told."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def later(self, what, delete, **arguments):
        def quietly():
            try:
                delete(**arguments)
            except ClientError as error:
                print(f"  {what} is left over, delete it by hand: {error}")

        self.callback(quietly)

    def table(self, logical_id, name):
        """A table as the template has it; its name."""
        dynamodb = boto3.client("dynamodb")
        wanted = yaml_parse(TEMPLATE.read_text())["Resources"][logical_id]["Properties"]
        taken = ("BillingMode", "KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes")
        name = f"{self.name}-{name}"
        dynamodb.create_table(TableName=name, **{key: wanted[key] for key in taken if key in wanted})
        self.later(f"the table {name}", dynamodb.delete_table, TableName=name)
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        return name

    def queue(self, name, **attributes):
        """A queue's URL and ARN."""
        sqs = boto3.client("sqs")
        url = sqs.create_queue(QueueName=f"{self.name}-{name}", Attributes=attributes)["QueueUrl"]
        self.later(f"the queue {url}", sqs.delete_queue, QueueUrl=url)
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return url, arn

    def fifo(self, name, **attributes):
        return self.queue(f"{name}.fifo", FifoQueue="true", ContentBasedDeduplication="true", **attributes)

    def role(self, name, *statements):
        iam = boto3.client("iam")
        role = f"{self.name}-{name}"
        made = iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"]
        self.later(f"the role {role}", iam.delete_role, RoleName=role)
        logs = {"Effect": "Allow", "Action": ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"}
        policy = {"Version": "2012-10-17", "Statement": [logs, *statements]}
        iam.put_role_policy(RoleName=role, PolicyName="verify", PolicyDocument=json.dumps(policy))
        self.later(f"the policy of {role}", iam.delete_role_policy, RoleName=role, PolicyName="verify")
        return made

    def function(self, name, source, *statements, **variables):
        """A function in Python, with a role of its own; its name."""
        function, role = f"{self.name}-{name}", self.role(name, *statements)
        aws = boto3.client("lambda")

        def create():
            try:
                return aws.create_function(
                    FunctionName=function,
                    Runtime="python3.12",
                    Handler="handler.handle",
                    Role=role,
                    Timeout=10,
                    Code={"ZipFile": zipped(source)},
                    Environment={"Variables": variables},
                )
            except aws.exceptions.InvalidParameterValueException:
                return None  # Lambda does not see a new role for some seconds.

        if not until(create, seconds=60, every=3):
            raise RuntimeError(f"Lambda did not take the role of {function}")
        self.later(f"the function {function}", aws.delete_function, FunctionName=function)
        self.callback(self.forget_logs, function)
        aws.get_waiter("function_active_v2").wait(FunctionName=function)
        return function

    def forget_logs(self, function):
        with contextlib.suppress(ClientError):
            boto3.client("logs").delete_log_group(logGroupName=f"/aws/lambda/{function}")

    def consumes(self, function, queue_arn):
        """Lets a function consume a queue."""
        aws = boto3.client("lambda")
        mapping = aws.create_event_source_mapping(
            FunctionName=function, EventSourceArn=queue_arn, FunctionResponseTypes=["ReportBatchItemFailures"]
        )["UUID"]
        self.later(f"the mapping {mapping}", aws.delete_event_source_mapping, UUID=mapping)
        enabled = until(lambda: aws.get_event_source_mapping(UUID=mapping)["State"] == "Enabled", seconds=180, every=2)
        if not enabled:
            raise RuntimeError(f"the mapping {mapping} was not enabled")

    def parameter(self, name, value, key):
        ssm = boto3.client("ssm")
        name = f"/{self.name}/{name}"
        ssm.put_parameter(Name=name, Value=value, Type="SecureString", **({"KeyId": key} if key else {}))
        self.later(f"the parameter {name}", ssm.delete_parameter, Name=name)
        return name

    def api(self, function):
        """An HTTP API with the routes of the intake, all to one function; its URL."""
        api, aws = boto3.client("apigatewayv2"), boto3.client("lambda")
        made = api.create_api(Name=self.name, ProtocolType="HTTP")
        self.later(f"the API {made['ApiId']}", api.delete_api, ApiId=made["ApiId"])
        arn = aws.get_function(FunctionName=function)["Configuration"]["FunctionArn"]
        aws.add_permission(
            FunctionName=function, StatementId="api", Action="lambda:InvokeFunction", Principal="apigateway.amazonaws.com"
        )
        to = api.create_integration(
            ApiId=made["ApiId"], IntegrationType="AWS_PROXY", IntegrationUri=arn, PayloadFormatVersion="2.0"
        )["IntegrationId"]
        for route in routes().values():
            api.create_route(ApiId=made["ApiId"], RouteKey=route, Target=f"integrations/{to}")
        api.create_stage(ApiId=made["ApiId"], StageName="$default", AutoDeploy=True)
        return made["ApiEndpoint"]
