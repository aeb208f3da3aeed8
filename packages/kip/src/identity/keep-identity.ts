import { backoffDelay, pause, type Clock, type Logger } from "@kip/base";
import type { AgentClient } from "@kip/agent-api";
import { identityValidMs, type CellIdentities } from "./cell-identity.ts";

/** Options of {@link keepIdentity}. */
export interface KeepIdentityOptions {
  readonly agent: Pick<AgentClient, "closed" | "putIdentity">;
  readonly identities: Pick<CellIdentities, "issueForCell">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly cellName: string;
  /** When the cell's certificate expires, milliseconds since the Unix epoch. NaN if unknown. */
  readonly expires: () => number;
  readonly onRenewed: (expires: Date) => void;
}

const backoff = { initialMs: 5000, maxMs: 3_600_000 };

/**
 * Renews a cell's certificate after half of its lifetime, repeatedly, while the connection lasts. A cell with an expired
 * certificate could not be reached over a new connection.
 */
export async function keepIdentity(options: KeepIdentityOptions): Promise<void> {
  const { agent, identities, clock, logger } = options;
  const closed = new AbortController();
  void agent.closed.then(() => closed.abort());
  for (let failures = 0; !closed.signal.aborted;) {
    try {
      const expires = options.expires();
      const restMs = Number.isNaN(expires) ? 0 : expires - clock.now() - identityValidMs / 2;
      if (restMs > 0) await clock.sleep(restMs, closed.signal);
      const renewed = await identities.issueForCell(options.cellName);
      await agent.putIdentity(renewed.identity, closed.signal);
      options.onRenewed(renewed.expires);
      failures = 0;
    } catch (error) {
      if (closed.signal.aborted) return;
      logger.warn("Could not renew the certificate of a cell", { err: error });
      await pause(backoffDelay(failures++, backoff, error), clock, closed.signal);
    }
  }
}
