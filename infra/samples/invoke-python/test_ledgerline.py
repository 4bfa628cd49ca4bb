"""Run with: python3 -m unittest discover"""

from __future__ import annotations

import logging
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from unittest import mock

import voucher
from ledgerline import Absent, CannotSay, Effect, Failed, Found, InDoubt, Invocation, Retry, effect


def document(**changes: Any) -> dict[str, Any]:
    """The document as Ledgerline sends it."""
    said = {
        "format": 1, "operation": "do", "id": "64d0f134", "type": "voucher.asked", "flow": "vouchers",
        "effect": "voucher", "received_at": "2026-11-16T09:00:00.000Z", "event": {"email": "ada@example.com"},
        "effects": {"crm": {"id": "crm_1"}}, "enrich": {}, "with": {"percent": 10}, "key": "64d0f134/voucher",
        "attempt": 2, "epoch": 7, "deadline": int((time.time() + 3) * 1000),
        "trace": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "from_the_future": 1,
    }
    return {**said, **changes}


def raising(error: BaseException) -> Effect:
    def do(call: Invocation) -> None:
        raise error

    return effect(do)


class TheDocument(unittest.TestCase):
    def test_the_function_gets_all_of_it(self) -> None:
        seen: list[Invocation] = []
        effect(seen.append)(document(), object())
        [call] = seen
        self.assertEqual((call.key, call.attempt, call.epoch), ("64d0f134/voucher", 2, 7))
        self.assertEqual((call.event["email"], call.effects["crm"]["id"]), ("ada@example.com", "crm_1"))
        self.assertEqual((call.with_, call.effect), ({"percent": 10}, "voucher"))
        self.assertTrue(2 < call.remaining() <= 3)

    def test_what_comes_too_late_is_not_begun(self) -> None:
        do = mock.Mock()
        self.assertEqual(effect(do)(document(deadline=0))["outcome"], "retry")
        do.assert_not_called()

    def test_a_newer_format_is_left_to_a_newer_helper(self) -> None:
        do = mock.Mock()
        self.assertEqual(effect(do)(document(format=2))["outcome"], "retry")
        self.assertEqual(effect(do)(document(format=2, operation="ask"))["outcome"], "cannot_say")
        do.assert_not_called()


class TheAnswer(unittest.TestCase):
    def setUp(self) -> None:
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

    def test_what_is_returned_is_done(self) -> None:
        self.assertEqual(effect(lambda call: {"code": "A1"})(document()), {"outcome": "done", "result": {"code": "A1"}})
        self.assertEqual(effect(lambda call: None)(document()), {"outcome": "done", "result": {}})

    def test_what_is_raised_says_what_is_known(self) -> None:
        for error, answer in [
            (Retry("busy", after=1.5), {"outcome": "retry", "message": "busy", "retry_after": 1.5}),
            (Failed("no such list"), {"outcome": "failed", "message": "no such list"}),
            (InDoubt(), {"outcome": "in_doubt"}),
            (ValueError("ada@example.com"), {"outcome": "in_doubt", "message": "raised ValueError"}),
        ]:
            with self.subTest(error=error):
                self.assertEqual(raising(error)(document()), answer)

    def test_an_exit_is_not_taken_for_an_answer(self) -> None:
        with self.assertRaises(SystemExit):
            raising(SystemExit(1))(document())


class TheQuestion(unittest.TestCase):
    def setUp(self) -> None:
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

    def asked(self, ask: Any) -> dict[str, Any]:
        do = mock.Mock()
        handler = effect(do)
        if ask is not None:
            handler.asks(ask)
        answer = handler(document(operation="ask"))
        do.assert_not_called()
        return answer

    def test_only_a_clear_answer_counts(self) -> None:
        for ask, outcome in [
            (lambda call: Found({"code": "A1"}), "found"),
            (lambda call: Absent(), "absent"),
            (lambda call: None, "cannot_say"),
            (lambda call: False, "cannot_say"),
            (mock.Mock(side_effect=CannotSay("down")), "cannot_say"),
            (mock.Mock(side_effect=TimeoutError()), "cannot_say"),
            (None, "cannot_say"),
        ]:
            with self.subTest(outcome=outcome):
                self.assertEqual(self.asked(ask)["outcome"], outcome)


class Partner(BaseHTTPRequestHandler):
    """Answers with the status that it is told, and remembers what it was asked."""

    status = 200
    asked: list[tuple[str, str, str | None]] = []

    def answer(self) -> None:
        Partner.asked.append((self.command, self.path, self.headers.get("Idempotency-Key")))
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b'{"id": "vouchers_1"}'
        self.send_response(Partner.status)
        self.send_header("Retry-After", "4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *said: object) -> None:
        pass


class TheSample(unittest.TestCase):
    def setUp(self) -> None:
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        server = HTTPServer(("127.0.0.1", 0), Partner)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.at(f"http://127.0.0.1:{server.server_port}")
        Partner.asked = []

    def at(self, url: str) -> None:
        patched = mock.patch.dict("os.environ", {"VOUCHERS_URL": url})
        patched.start()
        self.addCleanup(patched.stop)

    def test_it_makes_a_voucher_under_our_key(self) -> None:
        Partner.status = 200
        self.assertEqual(voucher.handler(document()), {"outcome": "done", "result": {"code": "vouchers_1"}})
        self.assertEqual(Partner.asked, [("POST", "/64d0f134-voucher", "64d0f134/voucher")])

    def test_it_says_only_what_it_knows(self) -> None:
        for status, to_do, to_ask in [
            (429, "retry", "cannot_say"), (422, "failed", "cannot_say"), (404, "failed", "absent"),
            (503, "in_doubt", "cannot_say"), (409, "in_doubt", "cannot_say"), (201, "done", "found"),
        ]:
            with self.subTest(status=status):
                Partner.status = status
                answer = voucher.handler(document())
                self.assertEqual(answer["outcome"], to_do)
                self.assertEqual(answer.get("retry_after"), 4 if status == 429 else None)
                self.assertEqual(voucher.handler(document(operation="ask"))["outcome"], to_ask)

    def test_a_partner_that_is_not_there_did_nothing(self) -> None:
        self.at("http://127.0.0.1:9")
        self.assertEqual(voucher.handler(document())["outcome"], "retry")
        self.assertEqual(voucher.handler(document(operation="ask"))["outcome"], "cannot_say")


if __name__ == "__main__":
    unittest.main()
