// How much of kip's only thread one cell can use, whatever its agent sends. The agent runs in its own process, and the measured
// CPU time is that of this thread. So other programs on the machine do not matter.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { on, once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { pipeline } from "node:stream/promises";
import { after, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { CertificateAuthority } from "@kip/pki";
import { AgentClient, cellServerName } from "../src/index.ts";

const hour = 3_600_000;
/** The allowed share of CPU time for the reports of one cell. */
const maxShare = 0.12;
const authority = await CertificateAuthority.create({ commonName: "kip", validMs: hour });
const kip = await authority.issue({ commonName: "kip", usages: ["client"], validMs: hour });
const cell = await authority.issue({
  commonName: "cell-1",
  dnsNames: [cellServerName("cell-1")],
  usages: ["server"],
  validMs: hour,
});
const folder = mkdtempSync(path.join(tmpdir(), "kip-event-loop-"));
after(() => rmSync(folder, { recursive: true }));
writeFileSync(path.join(folder, "ca"), authority.certificate);
writeFileSync(path.join(folder, "certificate"), cell.certificate);
writeFileSync(path.join(folder, "key"), cell.key);

/** Connects to an agent that sends this kind of data. */
async function meet<T>(kind: string, use: (client: AgentClient) => Promise<T>): Promise<T> {
  const sender = path.join(import.meta.dirname, "hostile-sender.ts");
  const child = spawn(process.execPath, [sender, folder, kind], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  try {
    const [port] = await once(child.stdout, "data");
    await using client = await AgentClient.connect({
      address: "127.0.0.1",
      port: Number(String(port)),
      cellName: "cell-1",
      ca: authority.certificate,
      ...kip,
      logger: silentLogger,
    });
    return await use(client);
  } finally {
    child.kill("SIGKILL");
  }
}

/** The share of this thread's CPU time for following the reports of such an agent. */
async function shareOf(
  kind: string,
): Promise<{ readonly share: number; readonly reports: number }> {
  return await meet(kind, async (client) => {
    const stop = new AbortController();
    let reports = 0;
    const following = (async () => {
      for await (const _ of client.status(stop.signal)) reports += 1;
    })().catch(() => {}); // a hostile agent may lose its connection
    const share = await measuredShare();
    stop.abort();
    await following;
    return { share, reports };
  });
}

/** The share of this thread's CPU time after the initial credit is used up. */
async function measuredShare(): Promise<number> {
  await systemClock.sleep(2000);
  const start = systemClock.monotonic();
  const used = process.threadCpuUsage();
  await systemClock.sleep(3000);
  const { user, system } = process.threadCpuUsage(used);
  return (user + system) / 1000 / (systemClock.monotonic() - start);
}

/** The same for a client that reads a log of such an agent. */
async function logShareOf(kind: string): Promise<number> {
  return await meet(kind, async (client) => {
    const log = await client.logs("c", { follow: true }, new AbortController().signal);
    log.resume();
    log.on("error", () => {}); // an agent that ignores windows loses its connection
    const share = await measuredShare();
    log.destroy();
    return share;
  });
}

describe("hostile cell: its share of the event loop", { timeout: 240_000 }, () => {
  it("is small for an honest agent, whose reports all come", async () => {
    const { share, reports } = await shareOf("honest");
    assert.ok(share < maxShare, `${share}`);
    assert.ok(reports >= 5, `${reports} reports`);
  });

  for (const kind of [
    "timings",
    "containers",
    "events",
    "many keys",
    "nested lists",
    "small reports",
    "blank lines",
    "window updates",
    "pings",
    "frames of one byte",
  ]) {
    it(`stays small when it sends ${kind} without pause`, async () => {
      // On a busy machine, the same work takes more CPU time in some runs. A cell without a limit takes too much in each run.
      const shares: number[] = [];
      do shares.push((await shareOf(kind)).share);
      while (shares.length < 3 && (shares.at(-1) ?? 0) >= maxShare);
      assert.ok((shares.at(-1) ?? 1) < maxShare, `${kind}: ${shares.join(", ")}`);
    });
  }

  it("stays small when a client reads a log of frames of one byte without pause", async () => {
    const share = await logShareOf("frames of one byte");
    assert.ok(share < maxShare, `${share}`);
  });

  it("loses and reorders nothing of an honest agent that sends more single bytes than its share", async () => {
    await meet("single bytes", async (client) => {
      const log = await client.logs("c", { follow: true }, new AbortController().signal);
      let read = 0;
      // 60,000 may come at once. How long the rest takes depends on the machine.
      for await (const [piece] of on(log, "data", { close: ["close"] })) {
        for (const byte of piece as Buffer) if (byte !== ++read % 256) assert.fail(`at ${read}`);
        if (read > 100_000) break;
      }
      assert.ok(read > 100_000, `${read} bytes`);
    });
  });

  it("forwards a port, a copy in each direction, without Node's warning of too many listeners", async (t) => {
    const warned = t.mock.method(process, "emitWarning", () => {});
    await meet("single bytes", async (client) => {
      const stop = new AbortController();
      const forwarded = await client.portForward(80, stop.signal);
      const connection = new PassThrough().setMaxListeners(20);
      const copies = Promise.allSettled([
        pipeline(connection, forwarded, { signal: stop.signal }),
        pipeline(forwarded, connection, { signal: stop.signal }),
      ]);
      stop.abort();
      await copies;
    });
    assert.deepEqual(
      warned.mock.calls.map(({ arguments: [warning] }) => String(warning)),
      [],
    );
  });

  it("takes few pieces of memory for single bytes that no client reads", async () => {
    await meet("60,000 frames of one byte", async (client) => {
      const log = await client.logs("c", { follow: true }, new AbortController().signal);
      while (log.readableLength < 40_000) await systemClock.sleep(10);
      // Data that is already in memory comes first, each piece as it arrived.
      let [pieces, bytes] = [0, 0];
      for await (const piece of on(log, "data", { close: ["close"] })) {
        const [{ length }] = piece as [Buffer];
        pieces += 1;
        bytes += length;
        if (bytes >= 40_000) break;
      }
      assert.ok(pieces < 100, `${pieces} pieces`);
    });
  });
});
