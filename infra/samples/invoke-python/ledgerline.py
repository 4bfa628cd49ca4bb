"""Do an effect of Ledgerline in a Lambda function of your own.

    from ledgerline import Absent, Found, Invocation, Retry, effect

    @effect
    def handler(call: Invocation) -> dict:
        ...                                  # do it, under call.key
        return {"code": "A1"}                # done; the flow's `result` keeps parts of this

    @handler.asks
    def happened(call: Invocation) -> Found | Absent:
        ...                                  # guarantee `lookup`: did an earlier call under call.key happen?

What is raised says what is known. `Retry` and `Failed` promise that nothing happened. Every other exception means that
the effect may have happened: what comes of that is the guarantee's matter.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["Absent", "CannotSay", "Effect", "Failed", "Found", "InDoubt", "Invocation", "Retry", "effect"]

FORMAT = 1
"""The format of the document that this helper reads."""

log = logging.getLogger("ledgerline")


@dataclass(frozen=True)
class Invocation:
    """What Ledgerline asks for. `event`, `effects`, `enrich` and `with_` are what the flow's templates read."""

    id: str
    """The event's id."""
    type: str
    """The event's type."""
    flow: str
    effect: str
    received_at: str
    """When the event was first received, as RFC 3339."""
    event: Any
    """The event's payload."""
    key: str
    """The idempotency key: the same for each try, replays included. Hand it on to whoever honours one."""
    attempt: int
    epoch: int
    """The fencing number. Store it with what you write, and write nothing under a lower one than is stored."""
    deadline: int
    """Until when the answer is waited for, in milliseconds since the Unix epoch."""
    effects: Mapping[str, Any] = field(default_factory=dict)
    """The results of earlier effects."""
    enrich: Mapping[str, Any] = field(default_factory=dict)
    with_: Any = field(default_factory=dict)
    """The values that the flow gives under `with`."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """The headers `traceparent` and `tracestate`, to hand on."""

    def remaining(self) -> float:
        """The seconds that are left until the deadline: no call of yours should wait longer."""
        return max(0.0, self.deadline / 1000 - time.time())


class _Said(Exception):
    """An outcome that is raised. The message goes to operators: put no names, addresses or other values into it."""

    def __init__(self, message: str = "", after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.after = after


class Retry(_Said):
    """Surely nothing happened. It is tried again, not before `after` seconds."""


class Failed(_Said):
    """Surely nothing happened, and trying again would not help."""


class InDoubt(_Said):
    """It may have happened."""


class CannotSay(_Said):
    """Nobody can say now whether it happened. It is asked again later."""


@dataclass(frozen=True)
class Found:
    """It happened, with this result."""

    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Absent:
    """It did not happen, and no earlier call can still do it."""


Do = Callable[[Invocation], "Mapping[str, Any] | None"]
Ask = Callable[[Invocation], "Found | Absent"]
Answer = dict[str, Any]


class Effect:
    """A Lambda handler that does one effect."""

    def __init__(self, do: Do) -> None:
        self._do = do
        self._ask: Ask | None = None
        self.__doc__ = do.__doc__

    def asks(self, ask: Ask) -> Ask:
        """Takes the function that says whether an earlier call happened."""
        self._ask = ask
        return ask

    def __call__(self, document: Mapping[str, Any], context: object = None) -> Answer:
        asked = document.get("operation") == "ask"
        if document.get("format") != FORMAT:
            return _answer("cannot_say" if asked else "retry", f"this function reads format {FORMAT} only")
        call = _invocation(document)
        return self._answer_ask(call) if asked else self._answer_do(call)

    def _answer_do(self, call: Invocation) -> Answer:
        if call.remaining() == 0:
            return _answer("retry", "the invocation came after its deadline, and nothing was done")
        try:
            result = self._do(call)
        except Retry as said:
            return _answer("retry", said.message, retry_after=said.after)
        except Failed as said:
            return _answer("failed", said.message)
        except InDoubt as said:
            return _answer("in_doubt", said.message, retry_after=said.after)
        except Exception as error:
            log.exception("the effect raised an error, and may have happened: event %s", call.id)
            return _answer("in_doubt", f"raised {type(error).__name__}")
        return _answer("done", result=dict(result or {}))

    def _answer_ask(self, call: Invocation) -> Answer:
        if self._ask is None:
            return _answer("cannot_say", "this function cannot be asked")
        try:
            said = self._ask(call)
        except CannotSay as unsaid:
            return _answer("cannot_say", unsaid.message)
        except Exception as error:
            log.exception("the question raised an error: event %s", call.id)
            return _answer("cannot_say", f"raised {type(error).__name__}")
        match said:
            case Found(result):
                return _answer("found", result=dict(result))
            case Absent():
                return _answer("absent")
            case _:
                return _answer("cannot_say", "the answer is neither Found nor Absent")


def effect(do: Do) -> Effect:
    """Makes a function the handler of an effect."""
    return Effect(do)


def _invocation(document: Mapping[str, Any]) -> Invocation:
    """The known fields of the document: a later version may send more."""
    known = {"with_" if name == "with" else name: value for name, value in document.items()}
    return Invocation(**{one.name: known[one.name] for one in fields(Invocation) if one.name in known})


def _answer(outcome: str, message: str = "", **more: Any) -> Answer:
    said = {"outcome": outcome, "message": message or None, **more}
    return {name: value for name, value in said.items() if value is not None}
