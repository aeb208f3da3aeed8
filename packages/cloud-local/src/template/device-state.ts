import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { chmod, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { decode } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { stateDescriptor } from "../qemu/qemu-arguments.ts";
import type { StartedQemu } from "../qemu/qemu-process.ts";

const migrationData = decode.object({ status: decode.string });

/** Memory in files stays where it is: only the devices' state is written and read. */
const capabilities = [
  { capability: "x-ignore-shared", state: true },
  { capability: "events", state: true },
];

/**
 * Stops a machine and writes the state of its devices. QEMU, which sees no file outside its folder and may make none
 * inside, sends it over a socket.
 *
 * @param socket path of the socket, in QEMU's folder
 * @throws {CloudError} `CLOUD_UNAVAILABLE`
 */
export async function saveDeviceState(
  qemu: StartedQemu,
  socket: string,
  file: string,
): Promise<void> {
  const { commands } = qemu;
  await commands.execute("stop");
  await commands.execute("migrate-set-capabilities", { capabilities });
  const server = createServer();
  try {
    server.listen(socket);
    await once(server, "listening");
    await chmod(socket, 0o666); // QEMU is another user; no other user gets to this folder
    const connection = once(server, "connection") as Promise<[Socket]>; // as Node documents it
    connection.catch(() => {}); // awaited below
    const completed = migrationEnd(qemu);
    completed.catch(() => {});
    await commands.execute("migrate", { uri: `unix:/${path.basename(socket)}` });
    const [stream] = await Promise.race([connection, qemu.end]);
    await pipeline(stream, createWriteStream(file, { mode: 0o600 }));
    await completed;
  } finally {
    server.close();
    await rm(socket, { force: true });
  }
}

/**
 * Gives a QEMU that was started with `-incoming defer` the devices' state that it has open.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` with what QEMU said
 */
export async function loadDeviceState(qemu: StartedQemu): Promise<void> {
  const { commands } = qemu;
  await commands.execute("migrate-set-capabilities", { capabilities });
  const completed = migrationEnd(qemu);
  completed.catch(() => {}); // awaited below
  await commands.execute("migrate-incoming", { uri: `fd:${stateDescriptor}` });
  await completed;
}

/** Waits for QEMU's event that the state has been written or read. */
async function migrationEnd({ commands, end }: StartedQemu): Promise<void> {
  const finished = Promise.withResolvers<void>();
  const stop = commands.onEvent("MIGRATION", migrationData, ({ status }) => {
    if (status === "completed") finished.resolve();
    if (status !== "failed" && status !== "cancelled") return;
    finished.reject(
      new CloudError("CLOUD_UNAVAILABLE", `Cannot move the device state: QEMU says ${status}`),
    );
  });
  try {
    await Promise.race([finished.promise, end]);
  } finally {
    stop();
  }
}
