import { KipError } from "@kip/base";
import { lastWords } from "./last-words.ts";
import type { SupervisedChild } from "./supervised-child.ts";

/** Where the provider writes to, and how long that file was before it started, bytes. */
export interface ProviderLog {
  readonly log: string;
  readonly since: number;
}

/** How long the provider may take to bring its node up, milliseconds. */
const readyMs = 120_000;

/**
 * Resolves when the provider is ready, as `untilReady` says.
 *
 * @throws {KipError} `LOCAL_CLUSTER_FAILED` with the provider's own last words, when it ends again and
 * again or takes too long
 */
export async function providerReady(
  provider: Pick<SupervisedChild, "failing">,
  { log, since }: ProviderLog,
  signal: AbortSignal,
  untilReady: (limit: AbortSignal) => Promise<void>,
): Promise<void> {
  const over = new AbortController();
  const limit = AbortSignal.any([signal, over.signal, AbortSignal.timeout(readyMs)]);
  const failed = provider.failing.then((how) => {
    throw new Error(`it ended again and again, ${how}`);
  });
  try {
    await Promise.race([untilReady(limit), failed]);
  } catch (error) {
    signal.throwIfAborted();
    const words = await lastWords(log, since).catch(() => undefined);
    throw new KipError(
      "LOCAL_CLUSTER_FAILED",
      `Cannot start the provider: ${words?.message ?? "it did not bring its node up in time"}`,
      {
        cause: words ? undefined : error,
        remedy: `${words?.remedy ? `${words.remedy}. ` : ""}See ${log}`,
      },
    );
  } finally {
    over.abort(); // ends untilReady, whose outcome nobody waits for
    failed.catch(() => {});
  }
}
