/** A sample: makes a voucher at a partner that YAML could not call as well, and says what became of it. */

import { CannotSay, Failed, Retry, absent, effect, found, remaining } from "./ledgerline.mjs";
import type { Invocation, JsonObject } from "./ledgerline.mjs";

type Call = Invocation<JsonObject, { readonly percent: number }>;

/** Answers that say that the partner did nothing, and will not. */
const SURELY_NOT = [400, 404, 405, 410, 413, 415, 422];

/** Failures before a connection was there: nothing happened. Whatever else goes wrong may come after it has. */
const NOT_CONNECTED = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"];

export const handler = effect<JsonObject, { readonly percent: number }>({
  async do(call) {
    const answer = await request(call, "POST", { percent: call.with.percent }).catch((error: unknown) => {
      throw NOT_CONNECTED.includes(codeOf(error)) ? new Retry("the partner was not reached") : error;
    });
    if (answer.status === 429) {
      throw new Retry("the partner throttles", { after: Number(answer.headers.get("retry-after") ?? 1) });
    }
    if (SURELY_NOT.includes(answer.status)) throw new Failed(`the partner answered ${answer.status}`);
    if (!answer.ok) throw new Error(`the partner answered ${answer.status}`);
    return { code: await idOf(answer) };
  },

  async ask(call) {
    const answer = await request(call, "GET");
    if (answer.status === 404) return absent;
    if (!answer.ok) throw new CannotSay(`the partner answered ${answer.status}`);
    return found({ code: await idOf(answer) });
  },
});

function request(call: Call, method: string, body?: JsonObject): Promise<Response> {
  return fetch(`${process.env["VOUCHERS_URL"]}/${call.id}-${call.effect}`, {
    method,
    headers: { "Idempotency-Key": call.key, "Content-Type": "application/json", ...call.trace },
    signal: AbortSignal.timeout(Math.max(100, remaining(call) * 1000)),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

async function idOf(answer: Response): Promise<string> {
  const made = (await answer.json()) as { readonly id: string };
  return made.id;
}

function codeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined;
  return cause?.code ?? "";
}
