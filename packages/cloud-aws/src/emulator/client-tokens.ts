import { createHash } from "node:crypto";

/** A response of the API. */
export interface Answer {
  readonly status: number;
  readonly body: string;
}

/** Idempotency as EC2 documents it: a client token has one effect, and the same token with other parameters is refused. */
export class ClientTokens {
  readonly #calls = new Map<string, { readonly sum: string; readonly answer: Promise<Answer> }>();

  /** Whether a call with this token has made something or is making it. */
  has(parameters: URLSearchParams): boolean {
    return this.#calls.has(keyOf(parameters));
  }

  async run(parameters: URLSearchParams, run: () => Promise<Answer>): Promise<Answer> {
    const token = parameters.get("ClientToken");
    if (token === null) return await run();
    const key = keyOf(parameters);
    const sum = createHash("sha256").update(parameters.toString()).digest("hex");
    const known = this.#calls.get(key);
    if (known) return known.sum === sum ? await known.answer : mismatch;
    const answer = run();
    this.#calls.set(key, { sum, answer });
    // A failed launch does not use up its token.
    if ((await answer).status !== 200) this.#calls.delete(key);
    return await answer;
  }
}

function keyOf(parameters: URLSearchParams): string {
  return `${parameters.get("Action")} ${parameters.get("ClientToken")}`;
}

/** An error in EC2's format. */
export function errorAnswer(code: string, message: string, status = 400): Answer {
  const body = `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>${code}</Code><Message>${message}</Message></Error></Errors><RequestID>proxy</RequestID></Response>`;
  return { status, body };
}

const mismatch = errorAnswer(
  "IdempotentParameterMismatch",
  "The client token is in use with other parameters",
);
