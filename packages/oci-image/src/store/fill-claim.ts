import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { createFile, isSystemError, type Clock } from "@kip/base";

/** How often a holder renews its claim, and how long it may miss that, milliseconds. */
const renewMs = 5000;
const silentMs = 30_000;
const lookMs = 500;
/** Largest claim, bytes: an owner and a counter. */
const maxClaimBytes = 100;
/** Other users of the folder may replace a claim with a link or pipe. */
const careful = constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Does some work once among all machines that share a folder. The claim is a file that is created exclusively (`O_EXCL`, which
 * NFS supports since version 3), so NFS needs no locks. Others wait until the work is done, or until the holder was silent for
 * half a minute, and then continue.
 *
 * This only saves work. Two processes may do the work at once, for example if a holder was just slow, so that must be harmless.
 *
 * @param file path of the claim, which is removed afterwards
 * @param isDone whether any process has done the work
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
    // By this machine's clock, because those of other machines and the server may differ.
    const state = await read(file);
    const now = clock.monotonic();
    if (state === undefined || state !== seen) silentSince = now;
    seen = state;
    if (state !== undefined && now - silentSince >= silentMs) await takeAway(file);
    // There is no event for changes that another machine makes on a share.
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
    // The previous holder may have finished between the check and the claim.
    if (!(await isDone())) await work();
  } finally {
    stop.abort();
    await renewing;
    // If another process has removed the claim, there may be a new one in its place.
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
      // Stopped, or the share is gone, which the work itself reports.
      return;
    }
  }
}

/** The present content of a claim. Opening it makes NFS ask its server. */
async function read(file: string): Promise<string | undefined> {
  try {
    await using handle = await open(file, constants.O_RDONLY | careful);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxClaimBytes));
    return buffer.toString("latin1", 0, bytesRead);
  } catch (error) {
    if (isSystemError(error, "ENOENT", "ESTALE")) return undefined;
    // A link or folder is not a valid claim, and never changes.
    if (isSystemError(error, "ELOOP", "EISDIR")) return "";
    throw error;
  }
}

/** A rename succeeds for one process only. The others find that the file is gone. */
async function takeAway(file: string): Promise<void> {
  const away = `${file}.${randomUUID()}`;
  try {
    await rename(file, away);
    await rm(away, { recursive: true, force: true });
  } catch (error) {
    if (!isSystemError(error, "ENOENT", "ESTALE")) throw error;
  }
}
