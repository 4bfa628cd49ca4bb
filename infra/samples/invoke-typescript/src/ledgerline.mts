/**
 * Do an effect of Ledgerline in a Lambda function of your own.
 *
 *     export const handler = effect({
 *       do: async (call) => ({ code: "A1" }),          // done; the flow's `result` keeps parts of this
 *       ask: async (call) => found({ code: "A1" }),    // guarantee `lookup`: did an earlier call happen?
 *     });
 *
 * What is thrown says what is known. `Retry` and `Failed` promise that nothing happened. Every other error means that
 * the effect may have happened: what comes of that is the guarantee's matter.
 */

/** The format of the document that this helper reads. */
export const FORMAT = 1;

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

/** What Ledgerline asks for. `event`, `effects`, `enrich` and `with` are what the flow's templates read. */
export interface Invocation<Event = JsonObject, With = JsonObject> {
  readonly format: number;
  readonly operation: "do" | "ask";
  /** The event's id. */
  readonly id: string;
  /** The event's type. */
  readonly type: string;
  readonly flow: string;
  readonly effect: string;
  /** When the event was first received, as RFC 3339. */
  readonly received_at: string;
  /** The event's payload. */
  readonly event: Event;
  /** The results of earlier effects. */
  readonly effects: { readonly [effect: string]: JsonObject };
  readonly enrich: { readonly [id: string]: Json };
  /** The values that the flow gives under `with`. */
  readonly with: With;
  /** The idempotency key: the same for each try, replays included. Hand it on to whoever honours one. */
  readonly key: string;
  readonly attempt: number;
  /** The fencing number. Store it with what you write, and write nothing under a lower one than is stored. */
  readonly epoch: number;
  /** Until when the answer is waited for, in milliseconds since the Unix epoch. */
  readonly deadline: number;
  /** The headers `traceparent` and `tracestate`, to hand on. */
  readonly trace: { readonly [header: string]: string };
}

/** The document that Ledgerline reads. */
export interface Answer {
  readonly outcome: "done" | "retry" | "failed" | "in_doubt" | "found" | "absent" | "cannot_say";
  readonly result?: JsonObject;
  readonly retry_after?: number;
  readonly message?: string;
}

/** An outcome that is thrown. The message goes to operators: put no names, addresses or other values into it. */
abstract class Said extends Error {
  readonly after: number | undefined;

  constructor(message = "", options: { after?: number } = {}) {
    super(message);
    this.after = options.after;
  }
}

/** Surely nothing happened. It is tried again, not before `after` seconds. */
export class Retry extends Said {}

/** Surely nothing happened, and trying again would not help. */
export class Failed extends Said {}

/** It may have happened. */
export class InDoubt extends Said {}

/** Nobody can say now whether it happened. It is asked again later. */
export class CannotSay extends Said {}

/** The answer to the question whether an effect happened. */
export type Happened = { readonly found: true; readonly result: JsonObject } | { readonly found: false };

/** It happened, with this result. */
export const found = (result: JsonObject = {}): Happened => ({ found: true, result });

/** It did not happen, and no earlier call can still do it. */
export const absent: Happened = { found: false };

/** The seconds that are left until the deadline: no call of yours should wait longer. */
export const remaining = (call: Pick<Invocation, "deadline">): number =>
  Math.max(0, (call.deadline - Date.now()) / 1000);

/** What an effect consists of. */
export interface Effect<Event, With> {
  /** Does the effect, and gives its result. */
  do(call: Invocation<Event, With>): Promise<JsonObject | void>;
  /** Says whether an earlier call under the same key happened. It changes nothing. */
  ask?(call: Invocation<Event, With>): Promise<Happened>;
}

/** Makes a Lambda handler of an effect. */
export function effect<Event = JsonObject, With = JsonObject>(
  does: Effect<Event, With>,
): (document: Invocation<Event, With>) => Promise<Answer> {
  return async (document) => {
    const asked = document.operation === "ask";
    if (document.format !== FORMAT) {
      return answer(asked ? "cannot_say" : "retry", `this function reads format ${FORMAT} only`);
    }
    return asked ? answerAsk(does, document) : answerDo(does, document);
  };
}

async function answerDo<Event, With>(does: Effect<Event, With>, call: Invocation<Event, With>): Promise<Answer> {
  if (remaining(call) === 0) {
    return answer("retry", "the invocation came after its deadline, and nothing was done");
  }
  try {
    return { outcome: "done", result: (await does.do(call)) ?? {} };
  } catch (error) {
    if (error instanceof Retry) return answer("retry", error.message, error.after);
    if (error instanceof Failed) return answer("failed", error.message);
    if (error instanceof InDoubt) return answer("in_doubt", error.message, error.after);
    console.error(`the effect threw an error, and may have happened: event ${call.id}`, error);
    return answer("in_doubt", `threw ${nameOf(error)}`);
  }
}

async function answerAsk<Event, With>(does: Effect<Event, With>, call: Invocation<Event, With>): Promise<Answer> {
  if (does.ask === undefined) return answer("cannot_say", "this function cannot be asked");
  try {
    const said = await does.ask(call);
    if (said?.found === true) return { outcome: "found", result: said.result };
    if (said?.found === false) return { outcome: "absent" };
    return answer("cannot_say", "the answer is neither found nor absent");
  } catch (error) {
    if (error instanceof CannotSay) return answer("cannot_say", error.message);
    console.error(`the question threw an error: event ${call.id}`, error);
    return answer("cannot_say", `threw ${nameOf(error)}`);
  }
}

const nameOf = (error: unknown): string => (error instanceof Error ? error.constructor.name : typeof error);

function answer(outcome: Answer["outcome"], message: string, after?: number): Answer {
  return {
    outcome,
    ...(message === "" ? {} : { message }),
    ...(after === undefined ? {} : { retry_after: after }),
  };
}
