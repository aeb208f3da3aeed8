import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { chmod, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { decode, untilAborted } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { stateDescriptor } from "../qemu/qemu-arguments.ts";
import type { StartedQemu } from "../qemu/qemu-process.ts";

const migrationData = decode.object({ status: decode.string });

/** Memory in files stays there. Only the device state is written and read. */
const capabilities = [
  { capability: "x-ignore-shared", state: true },
  { capability: "events", state: true },
];

/**
 * Stops a machine and writes its device state. QEMU sees no file outside its folder and cannot create one inside, so it sends
 * the state over a socket.
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
    await chmod(socket, 0o666); // QEMU runs as another user, and no other user can enter this folder
    await Promise.all([
      untilMigrated(qemu),
      receive(server, file, qemu.ended),
      commands.execute("migrate", { uri: `unix:/${path.basename(socket)}` }),
    ]);
  } finally {
    server.close();
    await rm(socket, { force: true });
  }
}

/**
 * Makes a QEMU that was started with `-incoming defer` load the device state from its open file.
 *
 * @throws {CloudError} `CLOUD_UNAVAILABLE` with QEMU's message
 */
export async function loadDeviceState(qemu: StartedQemu): Promise<void> {
  const { commands } = qemu;
  await commands.execute("migrate-set-capabilities", { capabilities });
  await Promise.all([
    untilMigrated(qemu),
    commands.execute("migrate-incoming", { uri: `fd:${stateDescriptor}` }),
  ]);
}

/** Writes the data of a server's first connection to a file. */
async function receive(server: Server, file: string, signal: AbortSignal): Promise<void> {
  const connection = once(server, "connection") as Promise<[Socket]>; // as Node documents it
  const [stream] = await untilAborted(connection, signal);
  await pipeline(stream, createWriteStream(file, { mode: 0o600 }));
}

/** Waits for QEMU's event that the state was written or read. */
async function untilMigrated({ commands, ended }: StartedQemu): Promise<void> {
  const finished = Promise.withResolvers<void>();
  const stop = commands.onEvent("MIGRATION", migrationData, ({ status }) => {
    if (status === "completed") finished.resolve();
    if (status !== "failed" && status !== "cancelled") return;
    finished.reject(
      new CloudError("CLOUD_UNAVAILABLE", `Cannot move the device state: QEMU says ${status}`),
    );
  });
  try {
    await untilAborted(finished.promise, ended);
  } finally {
    stop();
  }
}
