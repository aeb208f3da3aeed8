import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Clock, Logger } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import { createLeaderLease, fencedClient, type ApiClient, type LeaderTerm } from "@kip/k8s-client";
import type { Lease } from "@kip/k8s-types";
import type { CurrentTerm } from "./current-term.ts";
import { fencedDriver } from "./fenced-driver.ts";

/** What a kip uses in its turn. None of it changes anything once the turn may be over. */
export interface TurnParts {
  readonly client: ApiClient;
  /** Acts as the virtual node. @default none */
  readonly nodeClient?: ApiClient | undefined;
  readonly driver: CloudDriver;
  /** Aborts when the turn is over. All work then has to stop at once. */
  readonly signal: AbortSignal;
}

/** Options of {@link runInTurns}. */
export interface RunInTurnsOptions extends TurnParts {
  readonly nodeName: string;
  /** Is set to the term of each turn, for a driver that checks it itself. */
  readonly currentTerm?: CurrentTerm | undefined;
  /** Time after the last renewal when another kip may take over, milliseconds, whole seconds. @default 15000 */
  readonly durationMs?: number | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The work of one turn. Returns when the signal of its parts has aborted and all of its work has ended. */
  readonly run: (parts: TurnParts) => Promise<void>;
}

/** Namespace of the Lease, where the nodes' own Leases are, too. */
export const turnNamespace = "kube-node-lease";

/** Name of the Lease that the kip of a node holds in its turn. */
export function turnLease(nodeName: string): string {
  return `${nodeName}.kip`;
}

/**
 * Whether a Lease in {@link turnNamespace} is or was last held by a kip in its turn. Nodes also have Leases there, whose names
 * may have the same ending, but whose holder is the node itself.
 */
export function isHeldTurn({ metadata, spec }: Lease): boolean {
  return turnName.test(metadata?.name ?? "") && turnHolder.test(spec?.holderIdentity ?? "");
}

const turnName = /\.kip$/;
/** Host name and UUID. */
const turnHolder = /_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Runs one of several kips of a virtual node. The holder of the Lease `<node>.kip` works, and the others wait. A kip that could
 * not renew the Lease for two thirds of its duration stops by itself, before another one may begin, and waits again. A kip that
 * is stopped hands over at once.
 *
 * @throws errors of the work in its own turn
 */
export async function runInTurns(options: RunInTurnsOptions): Promise<void> {
  const { client, nodeName, durationMs = 15_000, clock, logger, signal } = options;
  const name = turnLease(nodeName);
  const identity = `${hostname()}_${randomUUID()}`;
  const lease = createLeaderLease({
    client,
    namespace: turnNamespace,
    name,
    identity,
    durationMs,
    clock,
    logger,
  });
  while (!signal.aborted) {
    logger.info("Waits for the Lease of the node", { lease: `${turnNamespace}/${name}` });
    const term = await lease.acquire(signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    if (term) await takeTurn(options, term);
  }
}

async function takeTurn(options: RunInTurnsOptions, term: LeaderTerm): Promise<void> {
  const { client, nodeClient, driver, nodeName, currentTerm, logger, run } = options;
  const signal = AbortSignal.any([options.signal, term.ended]);
  logger.info("Runs the node", { node: nodeName, turn: term.number });
  currentTerm?.begin(term);
  try {
    await run({
      client: fencedClient(client, term),
      nodeClient: nodeClient && fencedClient(nodeClient, term),
      driver: fencedDriver(driver, term),
      signal,
    });
  } catch (error) {
    if (!term.ended.aborted) throw error;
    logger.warn("The work failed after the end of its turn", { err: error });
  } finally {
    if (term.ended.aborted) {
      logger.error("Lost the Lease of the node; its pods run on", { err: term.ended.reason });
    }
    await term.release(true);
  }
}
