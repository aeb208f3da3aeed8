import { request } from "node:https";
import type { Clock } from "@kip/base";
import type { KeyPair } from "@kip/pki";

/** The server, and the client's identity. */
export interface ReadinessOptions {
  readonly server: string;
  readonly ca: string;
  readonly identity: KeyPair;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const intervalMs = 50;
const answerMs = 5000;

/**
 * Resolves once the API server reports that all its start-up steps are done (`/readyz`).
 *
 * Polls, because the API server does not announce it: its systemd notification comes before the start-up steps. 20 requests per
 * second for 3 seconds are cheap.
 *
 * @throws the signal's reason
 */
export async function waitUntilReady(options: ReadinessOptions): Promise<void> {
  for (;;) {
    options.signal.throwIfAborted();
    if (await isReady(options)) return;
    await options.clock.sleep(intervalMs, options.signal);
  }
}

async function isReady(options: ReadinessOptions): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const sent = request(new URL("/readyz", options.server), {
    agent: false,
    ca: options.ca,
    cert: options.identity.certificate,
    key: options.identity.key,
    timeout: answerMs,
    signal: options.signal,
  });
  sent.on("response", (response) => {
    response.resume();
    resolve(response.statusCode === 200);
  });
  sent.on("timeout", () => sent.destroy());
  // Not listening yet, cut off or aborted: in all cases the caller asks again.
  sent.on("error", () => resolve(false));
  sent.on("close", () => resolve(false));
  sent.end();
  return await promise;
}
