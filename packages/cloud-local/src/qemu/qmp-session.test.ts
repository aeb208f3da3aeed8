import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, Socket } from "node:net";
import path from "node:path";
import { describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { decode, runCommand } from "@kip/base";
import { growth } from "@kip/base/testing";
import { CloudError } from "@kip/cloud";
import { temporaryFolder } from "@kip/testing";
import { openCommands, QmpSession, runCommands } from "./qmp-session.ts";

interface Asked {
  readonly execute: string;
  readonly id: number;
}

/** A QEMU with nothing but its control socket. */
async function fakeQemu(
  answer: (asked: Asked, socket: Socket) => unknown,
): Promise<AsyncDisposable & { readonly file: string }> {
  const folder = temporaryFolder();
  const file = path.join(folder.path, "qmp.sock");
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.write('{"QMP":{"version":{}}}\r\n');
    let rest = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const asked of lines.map((line) => JSON.parse(line) as Asked)) {
        const reply = asked.execute === "qmp_capabilities" ? { return: {} } : answer(asked, socket);
        if (reply !== undefined) socket.write(`${JSON.stringify({ ...reply, id: asked.id })}\r\n`);
      }
    });
  });
  server.listen(file);
  await once(server, "listening");
  return {
    file,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      folder.remove();
    },
  };
}

describe("QmpSession", () => {
  it(
    "keeps no process running after unref(), whatever QEMU sends",
    { timeout: 60_000 },
    async () => {
      using folder = temporaryFolder();
      const file = path.join(folder.path, "qmp.sock");
      await using server = createServer((socket) => {
        socket.on("error", () => {});
        const timer = setInterval(() => socket.write("\n"), 20);
        socket.on("close", () => clearInterval(timer));
      });
      server.listen(file);
      await once(server, "listening");
      const { stdout } = await runCommand(process.execPath, [
        "--input-type=module",
        "-e",
        `
const { QmpSession } = await import(${JSON.stringify(path.join(import.meta.dirname, "qmp-session.ts"))});
(await QmpSession.connect(${JSON.stringify(file)})).unref();
await new Promise((resolve) => setTimeout(resolve, 200)); // it has received something
console.log(process.getActiveResourcesInfo().includes("Timeout"));`,
      ]);
      assert.equal(stdout, "false\n");
    },
  );

  it("gives the answer that belongs to the command", async () => {
    await using qemu = await fakeQemu(({ execute }) => ({ return: { of: execute } }));
    using session = await openCommands(qemu.file);
    const answers = await Promise.all([session.execute("one"), session.execute("two")]);
    assert.deepEqual(answers, [{ of: "one" }, { of: "two" }]);
  });

  it("keeps no line that is far too long, and hears what comes after it", async () => {
    await using qemu = await fakeQemu((_asked, socket) => {
      for (const length of [4 * 2 ** 20, 10])
        socket.write(`{"event":"SHUTDOWN","data":{"reason":"${"x".repeat(length)}"}}\r\n`);
      return { return: {} };
    });
    using session = await openCommands(qemu.file);
    const heard: unknown[] = [];
    session.onEvent("SHUTDOWN", decode.unknownValue, (data) => heard.push(data));
    await session.execute("one");
    assert.deepEqual(heard, [{ reason: "x".repeat(10) }]);
  });

  it("ignores an event whose data is of another shape, and hears the next", async () => {
    await using qemu = await fakeQemu((_asked, socket) => {
      socket.write('{"event":"DEVICE_DELETED","data":1}\r\n{"event":"DEVICE_DELETED"}\r\n');
      socket.write('{"event":"DEVICE_DELETED","data":{"device":"a"}}\r\n');
      return { return: {} };
    });
    using session = await openCommands(qemu.file);
    const heard: unknown[] = [];
    const deletion = decode.object({ device: decode.optional(decode.string) });
    session.onEvent("DEVICE_DELETED", deletion, ({ device }) => heard.push(device));
    await session.execute("one");
    assert.deepEqual(heard, ["a"]);
  });

  it("takes time in proportion to the length of a line that comes in small pieces", async () => {
    const times = await growth((pieces) => {
      const socket = new Socket();
      using _session = new QmpSession(socket);
      for (let piece = 0; piece < pieces; piece++) socket.emit("data", "x".repeat(16));
    }, 50_000);
    assert.ok(times < 40, `10 times as long a line takes ${times} times as long`);
  });

  it("reads no more than a little at a time of what a QEMU sends without end", async () => {
    const event = `{"event":"STOP","data":"${"x".repeat(100)}"}\r\n`.repeat(1000);
    await using qemu = await fakeQemu((_asked, socket) => {
      const send = (): void => {
        while (!socket.destroyed && socket.write(event));
      };
      socket.on("drain", send);
      send();
      return { return: {} };
    });
    using session = await openCommands(qemu.file);
    let heard = 0;
    session.onEvent("STOP", decode.unknownValue, () => heard++);
    session.execute("one").catch(() => {}); // its answer comes after all that
    await delay(1000);
    // Without a pause there are some hundred thousand.
    assert.ok(heard < 50_000, `${heard} events`);
    assert.ok(heard > 1000, `${heard} events`);
  });

  it("fails with QEMU's words", async () => {
    const error = { class: "DeviceNotFound", desc: "Device 'x' not found" };
    await using qemu = await fakeQemu(() => ({ error }));
    await assert.rejects(runCommands(qemu.file, [{ execute: "device_del" }]), (failure) => {
      assert.ok(CloudError.is(failure, "CLOUD_UNAVAILABLE"));
      return /Cannot do "device_del" on the machine: Device 'x' not found/.test(String(failure));
    });
  });

  it("fails when QEMU ends before it answers", async () => {
    await using qemu = await fakeQemu((_asked, socket) => void socket.destroy());
    using session = await openCommands(qemu.file);
    await assert.rejects(session.execute("quit"), /QEMU has ended/);
    await session.closed;
  });

  it("tells events, whole, until asked to stop", async () => {
    await using qemu = await fakeQemu((_asked, socket) => {
      socket.write('{"event":"STOP"}\r\n{"event":"RES');
      socket.write('UME","data":{"a":1}}\r\n');
      return { return: {} };
    });
    using session = await openCommands(qemu.file);
    const events: unknown[] = [];
    const stops = ["STOP", "RESUME"].map((event) =>
      session.onEvent(event, decode.unknownValue, (data) => events.push([event, data])),
    );
    await session.execute("cont");
    for (const stop of stops) stop();
    await session.execute("cont");
    assert.deepEqual(events, [
      ["STOP", undefined],
      ["RESUME", { a: 1 }],
    ]);
  });

  it("says that no machine runs where nothing listens", async () => {
    assert.equal(await QmpSession.connect("/nonexistent/qmp.sock"), undefined);
    await assert.rejects(runCommands("/nonexistent/qmp.sock", []), /it does not run/);
  });
});
