import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import path from "node:path";
import { buildCellImage } from "@kip/cell-image";
import { createLocalCloud } from "@kip/cloud-local";

/** A machine that only boots and serves HTTP. */
export interface BareBoot extends AsyncDisposable {
  /** Boots a machine of a type. Resolves with the milliseconds from the launch to its first response. */
  boot(instanceType: string): Promise<number>;
}

/** Prepares bare boots, with the image recipe, machine and flags of a cell, but without agent and pod. */
export async function bareBoot(cacheDir: string, stateDir: string): Promise<BareBoot> {
  const image = await buildCellImage({
    cacheDir,
    agentEntry: path.join(import.meta.dirname, "bare-server.ts"),
    onProgress: (message) => console.error(message),
  });
  const cloud = await createLocalCloud({
    owner: "bench",
    stateDir: path.join(stateDir, "bare"),
    imagesDir: path.dirname(image.dir),
    namespace: "kip-bare",
    range: "198.18.244.0/22",
    internet: false,
    templates: false,
  });
  await cloud.prepareNetwork();
  let count = 0;
  return {
    boot: async (instanceType) => {
      const began = performance.now();
      const name = `bare-${count++}`;
      const instance = await cloud.launch({
        token: name,
        name,
        instanceType,
        launchType: "on-demand",
        image: image.id,
        rootDiskBytes: 5 * 2 ** 30,
        userData: Buffer.from("#cloud-config\n{}\n"),
        privateIpOnly: true,
        tags: {},
      });
      const running = await cloud.waitForRunning(instance.id);
      await firstAnswer(running.managementIp ?? "");
      const took = performance.now() - began;
      await cloud.terminate(instance.id);
      await cloud.waitForTerminated(instance.id);
      return took;
    },
    [Symbol.asyncDispose]: async () => {
      await cloud.terminateAll();
      await cloud.removeNetwork();
      await cloud[Symbol.asyncDispose]();
    },
  };
}

/** Polls until the page is available. A booting machine sends no event. */
async function firstAnswer(address: string): Promise<void> {
  const end = performance.now() + 120_000;
  while (performance.now() < end) {
    if (await isAnswered(address)) return;
    await sleep(20);
  }
  throw new Error(`No answer from ${address}`);
}

async function isAnswered(address: string): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = net.connect({ host: address, port: 6421, timeout: 300 });
    socket.on("connect", () => socket.write("GET / HTTP/1.0\r\n\r\n"));
    socket.on("data", () => finish(true));
    socket.on("error", () => finish(false));
    socket.on("timeout", () => finish(false));
    function finish(isThere: boolean): void {
      socket.destroy();
      resolve(isThere);
    }
  });
}
