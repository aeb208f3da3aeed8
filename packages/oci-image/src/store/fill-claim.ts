import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { createFile, isSystemError, type Clock } from "@kip/base";

/** How often the holder shows that it is alive, and for how long it may be silent, milliseconds. */
const renewMs = 5000;
const silentMs = 30_000;
const lookMs = 500;
/** An owner and a count. */
const maxClaimBytes = 100;
/** Others who share the folder may put links and pipes in a claim's place. */
const careful = constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Does some work once among all who share a folder, on whatever machine: by a file that is made exclusively
 * (`O_EXCL`, which NFS keeps since version 3), without locks of NFS itself. Who comes second waits until the work is
 * done, or until its holder has been silent for half a minute, and goes on then.
 *
 * It saves work, no more: nothing may go wrong if two do it at once, as after a holder that was only slow.
 *
 * @param file of the claim; gone afterwards
 * @param isDone whether the work has been done, by whatever process
 */
export async function doOnce(
  file: string,
  options: {
    readonly isDone: () => Promise<boolean>;
    readonly work: () => Promise<void>;
    readonly clock: Clock;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<void> {
  const { isDone, clock, signal } = options;
  const owner = randomUUID();
  let seen: string | undefined;
  let silentSince = 0;
  while (!(await isDone())) {
    if (await claim(file, owner)) {
      await whileRenewed(file, owner, options);
      return;
    }
    // By our own clock: those of the machines and of the server may differ.
    const state = await read(file);
    const now = clock.monotonic();
    if (state === undefined || state !== seen) silentSince = now;
    seen = state;
    if (state !== undefined && now - silentSince >= silentMs) await takeAway(file);
    // There is no event for what another machine does on a share.
    else if (state !== undefined) await clock.sleep(lookMs, signal);
  }
}

async function claim(file: string, owner: string): Promise<boolean> {
  try {
    await using handle = await createFile(file, 0o644);
    await handle.writeFile(`${owner} 0`);
    return true;
  } catch (error) {
    if (isSystemError(error, "EEXIST")) return false;
    throw error;
  }
}

async function whileRenewed(
  file: string,
  owner: string,
  { isDone, work, clock }: Parameters<typeof doOnce>[1],
): Promise<void> {
  const stop = new AbortController();
  const renewing = renew(file, owner, clock, stop.signal);
  try {
    // The one before may have finished between our look and our claim.
    if (!(await isDone())) await work();
  } finally {
    stop.abort();
    await renewing;
    // If somebody has taken it away, there may be another's in its place.
    if ((await read(file))?.startsWith(owner) === true) await rm(file, { force: true });
  }
}

async function renew(
  file: string,
  owner: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  for (let count = 1; ; count++) {
    try {
      await clock.sleep(renewMs, signal);
      if ((await read(file))?.startsWith(owner) !== true) return;
      await using handle = await open(file, constants.O_RDWR | careful);
      await handle.writeFile(`${owner} ${count}`);
    } catch {
      // Stopped; or the share is gone, which the work itself reports.
      return;
    }
  }
}

/** What a claim says now: opening it makes NFS ask its server. */
async function read(file: string): Promise<string | undefined> {
  try {
    await using handle = await open(file, constants.O_RDONLY | careful);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxClaimBytes));
    return buffer.toString("latin1", 0, bytesRead);
  } catch (error) {
    if (isSystemError(error, "ENOENT", "ESTALE")) return undefined;
    // A link or a folder is not a claim, and never changes.
    if (isSystemError(error, "ELOOP", "EISDIR")) return "";
    throw error;
  }
}

/** A rename succeeds for one only; the others find that it is gone. */
async function takeAway(file: string): Promise<void> {
  const away = `${file}.${randomUUID()}`;
  try {
    await rename(file, away);
    await rm(away, { recursive: true, force: true });
  } catch (error) {
    if (!isSystemError(error, "ENOENT", "ESTALE")) throw error;
  }
}
