import { CloudError, type CloudErrorCode } from "@kip/cloud";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import { clientTokenOf } from "./run-request.ts";

/** What this process has asked for with the client token of a generation. */
interface Attempts {
  readonly generation: number;
  /** `refused`: EC2 has refused all attempts, so nothing was started. `open`: one is under way, or its effect is not known. */
  readonly outcome: "none" | "refused" | "open";
}

/** Answers that EC2 gives after it has looked at the client token: it has started nothing with that. */
const refusals: readonly CloudErrorCode[] = [
  "CLOUD_NO_CAPACITY",
  "CLOUD_QUOTA",
  "CLOUD_NOT_FOUND",
  "CLOUD_INVALID_REQUEST",
];
/** More instances of one Cell than can have ended within the hour for which EC2 shows them. */
export const mostGenerations = 50;
/** Launches that were not answered with an instance; without what is forgotten, they take longer. */
const mostKept = 1000;

/** Whether EC2 has had a client token in another request. It may keep one for a request that it refused, too. */
export function isTaken(error: unknown): boolean {
  return awsCodeOf(error) === "IdempotentParameterMismatch";
}

/**
 * The client tokens of launches: those of one token differ by their generation. Each starts at most one instance; a generation that
 * can no longer start one has a successor, and is not tried again.
 */
export class LaunchTokens {
  readonly #owner: string;
  readonly #attempts = new Map<string, Attempts>();

  constructor(owner: string) {
    this.#owner = owner;
  }

  /** The client token that launches of a token have now. */
  of(token: string): string {
    return this.#clientToken(token, this.#of(token).generation);
  }

  /** Has launches of a token use the next client token, unless they no longer use this one. */
  pass(token: string, clientToken: string): undefined {
    const { generation } = this.#of(token);
    if (this.#clientToken(token, generation) === clientToken)
      this.#keep(token, { generation: generation + 1, outcome: "none" });
  }

  /**
   * Sends a launch, and sends it again with the next client token where EC2 has kept one for what it refused before, or the
   * instance of one has ended.
   *
   * @throws what `send` throws
   */
  async send<T>(token: string, send: (clientToken: string) => Promise<T>): Promise<T> {
    for (let passed = 0; ; passed++) {
      const { generation, outcome } = this.#of(token);
      const clientToken = this.#clientToken(token, generation);
      const open = { generation, outcome: "open" } as const;
      this.#keep(token, open);
      try {
        const answer = await send(clientToken);
        if (generation === 0) this.#attempts.delete(token);
        return answer;
      } catch (error) {
        const hasEnded = awsCodeOf(error) === "IdempotentInstanceTerminated";
        const isVoid = hasEnded || (isTaken(error) && outcome === "refused");
        if (isVoid && passed < mostGenerations) {
          this.pass(token, clientToken);
          continue;
        }
        const isRefusal = !isTaken(error) && CloudError.is(error, ...refusals);
        // Unless another attempt has begun meanwhile.
        if (isRefusal && outcome !== "open" && this.#attempts.get(token) === open)
          this.#keep(token, { generation, outcome: "refused" });
        throw error;
      }
    }
  }

  #of(token: string): Attempts {
    return this.#attempts.get(token) ?? { generation: 0, outcome: "none" };
  }

  #keep(token: string, attempts: Attempts): void {
    if (this.#attempts.size >= mostKept && !this.#attempts.has(token)) this.#attempts.clear();
    this.#attempts.set(token, attempts);
  }

  #clientToken(token: string, generation: number): string {
    return clientTokenOf(this.#owner, token, generation);
  }
}
