import { CloudError, type CloudErrorCode } from "@kip/cloud";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import { clientTokenOf } from "./run-request.ts";

/** This process' launches with the client token of a generation. */
interface Attempts {
  readonly generation: number;
  /** `refused`: EC2 has refused all attempts, so nothing was started. `open`: one is under way, or its effect is unknown. */
  readonly outcome: "none" | "refused" | "open";
}

/** Errors that EC2 returns after it has checked the client token. They mean that EC2 has started nothing with this token. */
const refusals: readonly CloudErrorCode[] = [
  "CLOUD_NO_CAPACITY",
  "CLOUD_QUOTA",
  "CLOUD_NOT_FOUND",
  "CLOUD_INVALID_REQUEST",
];
/** More instances than can have ended for one Cell in the hour for which EC2 shows them. */
export const mostGenerations = 50;
/** How many launches without an instance are remembered. Forgotten ones take longer when they are repeated. */
const mostKept = 1000;

/** Whether EC2 has had a client token in another request. EC2 may keep the token of a refused request, too. */
export function isTaken(error: unknown): boolean {
  return awsCodeOf(error) === "IdempotentParameterMismatch";
}

/**
 * The client tokens of launches. A launch token has one client token for each generation, and each client token starts at most
 * one instance. A generation that can no longer start an instance is replaced by the next, and is not tried again.
 */
export class LaunchTokens {
  readonly #owner: string;
  readonly #attempts = new Map<string, Attempts>();

  constructor(owner: string) {
    this.#owner = owner;
  }

  /** The current client token of a launch token. */
  of(token: string): string {
    return this.#clientToken(token, this.#of(token).generation);
  }

  /** Advances a launch token to its next client token, unless it no longer uses this one. */
  pass(token: string, clientToken: string): undefined {
    const { generation } = this.#of(token);
    if (this.#clientToken(token, generation) === clientToken)
      this.#keep(token, { generation: generation + 1, outcome: "none" });
  }

  /**
   * Sends a launch. Sends it again with the next client token if EC2 has kept the token of a refused request, or if the token's
   * instance has ended.
   *
   * @throws errors of `send`
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
