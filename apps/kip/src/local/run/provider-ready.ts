import { systemClock, withTimeout } from "@kip/base";
import type { ProgramEnd } from "@kip/control-plane";
import { printedFailure } from "../../cli/printed-failure.ts";
import { KipError } from "../../errors.ts";

/** Options of {@link providerReady}. */
export interface ProviderReadyOptions {
  /** Resolves when the provider has ended soon after its start several times in a row. */
  readonly failing: Promise<ProgramEnd>;
  /** The provider's log, which the error's remedy names. */
  readonly logFile: string;
  readonly signal: AbortSignal;
}

/** How long the provider may take until its node is ready, milliseconds. */
const readyMs = 120_000;

/**
 * Resolves when `untilReady` reports that the provider is ready.
 *
 * @throws {KipError} `LOCAL_CLUSTER_FAILED`, with the provider's last output, if it ends repeatedly or takes too long
 */
export async function providerReady(
  { failing, logFile, signal }: ProviderReadyOptions,
  untilReady: (limit: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController();
  void failing.then(({ output, how }) => {
    const { message, remedy } = printedFailure(output) ?? { message: how, remedy: undefined };
    failed.abort(notStarted(message, logFile, remedy));
  });
  await withTimeout(untilReady, {
    limitMs: readyMs,
    clock: systemClock,
    signal: AbortSignal.any([signal, failed.signal]),
    error: () => notStarted("its node was not ready in time", logFile),
  });
}

function notStarted(reason: string, logFile: string, remedy?: string): KipError {
  return new KipError("LOCAL_CLUSTER_FAILED", `Cannot start the provider: ${reason}`, {
    remedy: `${remedy === undefined ? "" : `${remedy}. `}See ${logFile}`,
  });
}
