"""What a function finds in AWS, in one process: the emulator's DynamoDB, a queue, a secret, a partner and a collector.

Each request is counted, and of each write the units that it takes.
"""

import asyncio
import base64
import hashlib
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ministack.services import dynamodb

KEY = b"a signing secret of the bench..."
TABLES = {"ledger": ["pk", "sk"], "limits": ["pk"], "contacts": ["pk"]}
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")


class Request(BaseHTTPRequestHandler):
    """One request. A subclass answers with a status, headers and a body."""

    protocol_version = "HTTP/1.1"
    # Head and body of an answer arrive as one: a function reads each in as many steps as the last time.
    wbufsize = 1 << 20
    disable_nagle_algorithm = True

    def handle_any(self):
        status, headers, body = self.answered(self.path, self.read())
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = handle_any

    def read(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_):
        pass


def serve(answered):
    """Answers requests with this, on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answered", (Request,), {"answered": answered}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"127.0.0.1:{server.server_address[1]}"


class Cloud:
    def __init__(self):
        self.counted, self.messages = Counter(), []
        self.lock, self.loop = threading.Lock(), asyncio.new_event_loop()
        for table, keys in TABLES.items():
            self.dynamo("CreateTable", {
                "TableName": table,
                "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": [{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"))],
                "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in keys],
            })
        cloud = self
        _, address = serve(lambda request, path, body: cloud.answered(request, path, body))
        self.url = f"http://{address}"

    def answered(self, request, path, body):
        with self.lock:
            if path.startswith("/collector"):
                self.counted["exports"] += 1
                return 200, {"Content-Type": "application/x-protobuf"}, b""
            self.counted["requests"] += 1
            if path.startswith("/partner"):
                return told({"id": "id_1"})
            target = request.headers["x-amz-target"].split(".")[-1]
            asked = json.loads(body)
            if target == "SendMessage":
                self.messages.append(asked)
                return told({"MessageId": "m", "MD5OfMessageBody": md5(asked["MessageBody"])})
            if target == "GetParametersByPath":
                return told({"Parameters": [secret(asked["Path"])]})
            return self.dynamo(target, asked)

    def dynamo(self, target, asked):
        asked["ReturnConsumedCapacity"] = "TOTAL"
        headers = {"x-amz-target": f"DynamoDB_20120810.{target}"}
        handled = dynamodb.handle_request("POST", "/", headers, json.dumps(asked).encode(), {})
        status, _, body = self.loop.run_until_complete(handled)
        if target in WRITES:
            self.counted["write units"] += units(json.loads(body))
        return status, {"Content-Type": "application/x-amz-json-1.0"}, body


def told(answer):
    return 200, {"Content-Type": "application/json"}, json.dumps(answer).encode()


def units(answer):
    """The units of a write; of one that was declined, the least."""
    consumed = answer.get("ConsumedCapacity", [])
    consumed = consumed if isinstance(consumed, list) else [consumed]
    return sum(part["CapacityUnits"] for part in consumed) or 1


def secret(path):
    value = "whsec_" + base64.b64encode(KEY).decode() if "/sources/" in path else "a token"
    return {"Name": f"{path.rstrip('/')}/one", "Type": "SecureString", "Value": value, "Version": 1}


def md5(text):
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
