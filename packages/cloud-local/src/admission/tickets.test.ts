import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";
import { identifyProcess, thisProcess } from "@kip/base";
import { startingCount, Tickets, waiting, type Ticket } from "./tickets.ts";

const folder = await mkdtemp(path.join(os.tmpdir(), "kip-tickets-"));
after(() => rm(folder, { recursive: true, force: true }));

const ticket = (key: string, changes: Partial<Ticket>): Ticket => ({
  key,
  createdAt: 1,
  arrivedAt: 1.5,
  needs: { memory: 1, disk: 1, cpus: 1 },
  state: "waiting",
  process: thisProcess(),
  ...changes,
});

describe("Tickets", () => {
  it("keeps only the tickets of live processes", async () => {
    const tickets = new Tickets(folder);
    await tickets.open();
    const child = spawn("sleep", ["60"]);
    const ofChild = identifyProcess(child.pid ?? 0) ?? assert.fail("no process");
    const mine = ticket("mine", {});
    const starting = ticket("starting", { process: ofChild, state: "starting" });
    await tickets.put(mine);
    await tickets.put(starting);
    await tickets.put(ticket("reused", { process: { ...thisProcess(), startTicks: "12345" } })); // another process with this ID
    await writeFile(path.join(tickets.folder, "broken.json"), "{");
    const all = await tickets.read();
    assert.deepEqual(waiting(all), [mine]);
    assert.equal(startingCount(all), 1);
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.deepEqual(await tickets.read(), [mine]);
    await tickets.remove("mine");
    await tickets.remove("mine");
    assert.deepEqual(await tickets.read(), []);
    assert.deepEqual(await readdir(tickets.folder), ["broken.json"]);
  });
});
