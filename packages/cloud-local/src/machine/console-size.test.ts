import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { temporaryFolder } from "@kip/testing";
import { keepConsolesShort } from "./console-size.ts";
import { MachineStore } from "./machine-store.ts";
import type { MachineRecord } from "./machine-record.ts";

describe("keepConsolesShort()", () => {
  it("leaves the end of a console that is too long, and others as they are", async () => {
    using folder = temporaryFolder();
    const machines = new MachineStore(folder.path);
    const consoles = ["long", "short"].map((id) => machines.files(id).console);
    const [long = "", short = ""] = consoles;
    for (const file of consoles) fs.mkdirSync(path.dirname(file), { recursive: true });
    // QEMU opens it in the same way.
    using writer = openToAppend(long);
    fs.writeSync(writer.fd, Buffer.alloc(5 * 2 ** 20, "x"));
    fs.writeSync(writer.fd, "the end\n");
    fs.writeFileSync(short, "y".repeat(1000));
    const stop = new AbortController();
    let looks = 0;
    await keepConsolesShort({
      store: {
        files: (id) => machines.files(id),
        readAll: async () =>
          // A machine may disappear at any time.
          ["long", "short", "gone"].map((id) => ({ id }) as MachineRecord), // all that is looked at
      },
      clock: {
        ...systemClock,
        sleep: async () => {
          if (++looks > 2) stop.abort();
          stop.signal.throwIfAborted();
        },
      },
      logger: silentLogger,
      signal: stop.signal,
    });
    fs.writeSync(writer.fd, "and more\n");
    const text = fs.readFileSync(long, "utf8");
    assert.equal(text.length, 256 * 1024 + "and more\n".length);
    assert.ok(text.endsWith("xxxthe end\nand more\n"));
    assert.equal(fs.readFileSync(short, "utf8").length, 1000);
  });
});

function openToAppend(file: string): Disposable & { readonly fd: number } {
  const fd = fs.openSync(file, "a");
  return { fd, [Symbol.dispose]: () => fs.closeSync(fd) };
}
