"""AWS as a test tells it: what each operation answers, and what was asked."""

import contextlib
import functools
import unittest.mock

import botocore.session
from botocore.exceptions import ClientError


def declined(code, message=""):
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


def not_found(service):
    error = real(service).exceptions.ResourceNotFoundException
    return error({"Error": {"Code": "ResourceNotFoundException", "Message": "not there"}}, "Operation")


NO_STACK = declined("ValidationError", "Stack with id a does not exist")


@functools.cache
def real(service):
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return botocore.session.get_session().create_client(service, region_name="us-east-1", **keys)


class Aws:
    """Answers by `service.operation`: a value, an error to raise, or a function of what is asked."""

    def __init__(self, **answers):
        self.answers, self.asked = {name.replace("__", "."): it for name, it in answers.items()}, []

    def of(self, operation):
        return [arguments for name, arguments in self.asked if name == operation]

    def client(self, service, **_):
        return Client(self, service)

    def answer(self, operation, arguments):
        self.asked.append((operation, arguments))
        answer = self.answers[operation]
        answer = answer(**arguments) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(unittest.mock.patch("boto3.client", self.client))
            self.undo = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()


class Client:
    """A client whose operations are those of botocore, so that a misspelt one fails, and so do wrong arguments."""

    def __init__(self, aws, service):
        self._aws, self._service = aws, service
        self._real = real(service)
        self.exceptions = self._real.exceptions

    def __getattr__(self, method):
        operation = self._real.meta.method_to_api_mapping[method]
        shape = self._real.meta.service_model.operation_model(operation).input_shape

        def call(**arguments):
            unknown = set(arguments) - set(shape.members if shape else {})
            assert not unknown, f"{operation} takes no {unknown}"
            return self._aws.answer(f"{self._service}.{method}", arguments)

        return call

    def get_paginator(self, method):
        class Pages:
            paginate = staticmethod(lambda **asked: [getattr(self, method)(**asked)])

        return Pages

    def get_waiter(self, name):
        return Waiter(self._aws, f"{self._service}.wait.{name}")


class Waiter:
    """Has nothing to wait for."""

    def __init__(self, aws, name):
        self.aws, self.name = aws, name

    def wait(self, **asked):
        self.aws.asked.append((self.name, asked))
