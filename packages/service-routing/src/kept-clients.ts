import { CommandError, systemClock, withTimeout, type Clock, type Logger } from "@kip/base";
import type { ClientMap } from "./affinity-rules.ts";
import type { ServiceTable } from "./services.ts";

/** Maximum number of maps that are read. Each needs a run of nft. */
const maxMaps = 32;

/** Maximum number of clients that are copied from one map. Usually there are two: the machine itself and its pod. */
const maxClients = 1024;

/** Number of characters after which no more maps are read. Clients that can reach the machine may have filled maps, with 4 MB each. */
const maxCharacters = 8 * 1024 * 1024;

/** Time limit for reading maps, milliseconds, because this delays the new table. */
const limitMs = 20_000;

/** Approximate number of characters for one run of nft, which takes 50 times as much memory. */
const batchCharacters = 256 * 1024;

/** An element in the output of nft: client, remaining time, and number of the endpoint. */
const element = /([0-9a-f.:]+) (?:timeout \S+ )?expires ([1-9]\w*) : (0x4[0-9a-f]{7})\b/g;

/**
 * Copies clients with their remaining time from the table in force to a new table, which is filled and has no hooks yet. If a map fails, or a
 * limit above is reached, the other clients get another endpoint, as if their time had expired. Never throws.
 *
 * Namespaces take turns, so that one with many Services does not use up the limits.
 */
export async function copyClients(
  maps: readonly ClientMap[],
  options: {
    readonly from: ServiceTable;
    readonly to: ServiceTable;
    readonly runNft: (text: string) => Promise<string>;
    readonly clock?: Clock | undefined;
    readonly logger: Logger;
  },
): Promise<void> {
  const { from, to, runNft, clock = systemClock, logger } = options;
  const warn = (err: unknown): undefined => {
    logger.warn("Could not keep endpoints of clients of Services with session affinity", { err });
  };
  let text = "";
  const send = async (): Promise<void> => {
    const batch = text;
    text = "";
    if (batch !== "") await runNft(batch).catch(warn);
  };
  const copy = async (signal: AbortSignal): Promise<void> => {
    let characters = 0;
    for (const { ip, name } of roundRobin(maps).slice(0, maxMaps)) {
      if (characters >= maxCharacters) return;
      const printed = await listed(`list map ${ip} ${from} ${name}\n`, runNft).catch(warn);
      if (signal.aborted) return;
      if (printed === undefined) continue;
      characters += printed.length;
      const clients = [...printed.matchAll(element).take(maxClients)].map(
        ([, client, time, endpoint]) => `${client} timeout ${time} : ${endpoint}`,
      );
      if (clients.length > 0) text += `add element ${ip} ${to} ${name} { ${clients.join(", ")} }\n`;
      if (text.length >= batchCharacters) await send();
      if (signal.aborted) return;
    }
  };
  await withTimeout(copy, { limitMs, clock }).catch(warn);
  // Also send the clients that were read before a timeout.
  await send();
}

/** Lists a map. Empty if it does not exist, because the Service is new. */
async function listed(command: string, runNft: (text: string) => Promise<string>): Promise<string> {
  try {
    return await runNft(command);
  } catch (error) {
    if (error instanceof CommandError && error.stderr.includes("No such file")) return "";
    throw error;
  }
}

/** Orders maps: first one of each namespace, then the second one of each, and so on. */
function roundRobin(maps: readonly ClientMap[]): readonly ClientMap[] {
  const counts = new Map<string, number>();
  const turns = maps.map((map) => {
    const turn = counts.get(map.namespace) ?? 0;
    counts.set(map.namespace, turn + 1);
    return { map, turn };
  });
  return turns.sort((a, b) => a.turn - b.turn).map(({ map }) => map);
}
