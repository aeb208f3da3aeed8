import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { decode, isProcessRunning } from "@kip/base";
import type { PendingLaunch } from "./admission-plan.ts";

const ticketDocument = decode.object({
  key: decode.string,
  createdAt: decode.number,
  arrivedAt: decode.number,
  needs: decode.object({ memory: decode.number, disk: decode.number, cpus: decode.number }),
  /** starting: it has its resources, and counts against the limit for starting machines. */
  state: decode.oneOf("waiting", "starting"),
  /** The requesting process. */
  process: decode.object({ pid: decode.integer, startTicks: decode.string }),
});

/** The place of a launch in the queue. */
export type Ticket = decode.Decoded<typeof ticketDocument>;

/**
 * The waiting and starting launches of all processes, with one file each. A ticket is only valid while the process that wrote
 * it runs, so none outlives a crash.
 */
export class Tickets {
  readonly folder: string;

  constructor(stateDir: string) {
    this.folder = path.join(stateDir, "queue");
  }

  async open(): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
  }

  /** Writes a ticket or its new state. Callers hold the lock for all machines. */
  async put(ticket: Ticket): Promise<void> {
    const file = this.#file(ticket.key);
    await writeFile(`${file}.new`, JSON.stringify(ticket), { mode: 0o600 });
    await rename(`${file}.new`, file);
  }

  async remove(key: string): Promise<void> {
    await rm(this.#file(key), { force: true });
  }

  /** Reads the tickets of running processes, and removes others. */
  async read(): Promise<readonly Ticket[]> {
    const names = (await readdir(this.folder)).filter((name) => name.endsWith(".json"));
    const tickets = await Promise.all(names.map((name) => this.#readOne(name)));
    return tickets.filter((ticket) => ticket !== undefined);
  }

  async #readOne(name: string): Promise<Ticket | undefined> {
    const file = path.join(this.folder, name);
    try {
      const ticket = ticketDocument(JSON.parse(await readFile(file, "utf8")), file);
      if (isProcessRunning(ticket.process)) return ticket;
      await rm(file, { force: true });
    } catch {
      // It was removed in the meantime, or another version has written it.
    }
    return undefined;
  }

  #file(key: string): string {
    return path.join(this.folder, `${key}.json`);
  }
}

/** The launches without resources so far. */
export function waiting(tickets: readonly Ticket[]): readonly PendingLaunch[] {
  return tickets.filter(({ state }) => state === "waiting");
}

/** Number of starting machines. */
export function startingCount(tickets: readonly Ticket[]): number {
  return tickets.filter(({ state }) => state === "starting").length;
}
