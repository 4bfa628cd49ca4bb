import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, mock, test } from "node:test";

import { CannotSay, Failed, InDoubt, Retry, absent, effect, found, remaining } from "../src/ledgerline.mjs";
import type { Invocation, JsonObject } from "../src/ledgerline.mjs";
import { handler } from "../src/voucher.mjs";

/** The document as Ledgerline sends it. */
function document(changes: Partial<Invocation> = {}): Invocation<JsonObject, { percent: number }> {
  return {
    format: 1,
    operation: "do",
    id: "64d0f134",
    type: "voucher.asked",
    flow: "vouchers",
    effect: "voucher",
    received_at: "2026-11-16T09:00:00.000Z",
    event: { email: "ada@example.com" },
    effects: { crm: { id: "crm_1" } },
    enrich: {},
    key: "64d0f134/voucher",
    attempt: 2,
    epoch: 7,
    deadline: Date.now() + 3000,
    trace: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
    ...changes,
    with: { percent: 10 },
  };
}

const throwing = (error: unknown) => effect({ do: () => Promise.reject(error) });

before(() => mock.method(console, "error", () => undefined));
after(() => mock.restoreAll());

test("the function gets all of the document", async () => {
  let seen: Invocation<JsonObject, { percent: number }> | undefined;
  await effect<JsonObject, { percent: number }>({
    async do(call) {
      seen = call;
    },
  })(document());
  assert.deepEqual([seen?.key, seen?.attempt, seen?.epoch], ["64d0f134/voucher", 2, 7]);
  assert.deepEqual([seen?.event["email"], seen?.effects["crm"]?.["id"]], ["ada@example.com", "crm_1"]);
  assert.equal(seen?.with.percent, 10);
  assert.ok(remaining(document()) > 2);
});

test("what comes too late is not begun", async () => {
  const does = mock.fn(async () => undefined);
  assert.equal((await effect({ do: does })(document({ deadline: 0 }))).outcome, "retry");
  assert.equal(does.mock.callCount(), 0);
});

test("a newer format is left to a newer helper", async () => {
  const does = mock.fn(async () => undefined);
  assert.equal((await effect({ do: does })(document({ format: 2 }))).outcome, "retry");
  assert.equal((await effect({ do: does })(document({ format: 2, operation: "ask" }))).outcome, "cannot_say");
  assert.equal(does.mock.callCount(), 0);
});

test("what is returned is done", async () => {
  assert.deepEqual(await effect({ do: async () => ({ code: "A1" }) })(document()), {
    outcome: "done",
    result: { code: "A1" },
  });
  assert.deepEqual(await effect({ do: async () => undefined })(document()), { outcome: "done", result: {} });
});

test("what is thrown says what is known", async () => {
  for (const [error, answer] of [
    [new Retry("busy", { after: 1.5 }), { outcome: "retry", message: "busy", retry_after: 1.5 }],
    [new Failed("no such list"), { outcome: "failed", message: "no such list" }],
    [new InDoubt(), { outcome: "in_doubt" }],
    [new RangeError("ada@example.com"), { outcome: "in_doubt", message: "threw RangeError" }],
    ["ada@example.com", { outcome: "in_doubt", message: "threw string" }],
  ] as const) {
    assert.deepEqual(await throwing(error)(document()), answer);
  }
});

test("only a clear answer to the question counts", async () => {
  const does = mock.fn(async () => undefined);
  for (const [ask, outcome] of [
    [async () => found({ code: "A1" }), "found"],
    [async () => absent, "absent"],
    [async () => undefined as never, "cannot_say"],
    [async () => false as never, "cannot_say"],
    [() => Promise.reject(new CannotSay("down")), "cannot_say"],
    [() => Promise.reject(new Error("down")), "cannot_say"],
  ] as const) {
    assert.equal((await effect({ do: does, ask })(document({ operation: "ask" }))).outcome, outcome);
  }
  assert.equal((await effect({ do: does })(document({ operation: "ask" }))).outcome, "cannot_say");
  assert.equal(does.mock.callCount(), 0);
});

/** A partner that answers with the status that it is told, and remembers what it was asked. */
const partner = { status: 200, asked: [] as unknown[], server: undefined as Server | undefined };

before(async () => {
  partner.server = createServer((asked, answer) => {
    partner.asked.push([asked.method, asked.url, asked.headers["idempotency-key"]]);
    asked.resume();
    answer.writeHead(partner.status, { "retry-after": "4" }).end('{"id": "vouchers_1"}');
  });
  await once(partner.server.listen(0, "127.0.0.1"), "listening");
  process.env["VOUCHERS_URL"] = `http://127.0.0.1:${(partner.server.address() as AddressInfo).port}`;
});
after(() => {
  partner.server?.closeAllConnections();
  partner.server?.close();
});

test("the sample makes a voucher under our key", async () => {
  partner.status = 200;
  assert.deepEqual(await handler(document()), { outcome: "done", result: { code: "vouchers_1" } });
  assert.deepEqual(partner.asked, [["POST", "/64d0f134-voucher", "64d0f134/voucher"]]);
});

test("the sample says only what it knows", async () => {
  for (const [status, toDo, toAsk] of [
    [429, "retry", "cannot_say"],
    [422, "failed", "cannot_say"],
    [404, "failed", "absent"],
    [503, "in_doubt", "cannot_say"],
    [409, "in_doubt", "cannot_say"],
    [201, "done", "found"],
  ] as const) {
    partner.status = status;
    const answer = await handler(document());
    assert.deepEqual([answer.outcome, answer.retry_after], [toDo, status === 429 ? 4 : undefined], `${status}`);
    assert.equal((await handler(document({ operation: "ask" }))).outcome, toAsk, `${status}`);
  }
});

test("a partner that is not there did nothing", async () => {
  const url = process.env["VOUCHERS_URL"];
  const gone = createServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  process.env["VOUCHERS_URL"] = `http://127.0.0.1:${(gone.address() as AddressInfo).port}`;
  await new Promise((closed) => gone.close(closed));
  assert.equal((await handler(document())).outcome, "retry");
  assert.equal((await handler(document({ operation: "ask" }))).outcome, "cannot_say");
  process.env["VOUCHERS_URL"] = url;
});
