import { mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import { silentLogger } from "@kip/base";
import { orderLine, parseOrder } from "@kip/cloud-init";
import { writeBootResults } from "./boot-results.ts";
import { applyCloneIdentity } from "./apply-clone-identity.ts";

/**
 * Applies a clone's identity once without effect, so that all of that code is already compiled in each clone.
 *
 * @param directory created for this, and removed
 */
export async function rehearseClone(directory: string): Promise<void> {
  mkdirSync(path.join(directory, "etc"), { recursive: true });
  const file = { path: "/var/lib/file", content: "{}", permissions: "0600" };
  const line = orderLine({
    version: 1,
    instanceId: "i-0",
    hostname: "rehearsal",
    machineId: "0".repeat(32),
    unixMs: Date.now(),
    entropy: Buffer.alloc(64).toString("base64"),
    network: {
      mac: "02:00:00:00:00:00",
      address: "192.0.2.1/24",
      gateway: "192.0.2.2",
      nameservers: ["192.0.2.3"],
    },
    userData: `#cloud-config\n${JSON.stringify({ hostname: "rehearsal", write_files: [file] })}`,
  });
  const order = parseOrder(line.trimEnd());
  if (order.kind !== "become") throw new TypeError("The order is not an identity");
  await applyCloneIdentity(order.identity, {
    helper: { ask: () => {}, answer: () => {} },
    receivedAtMs: performance.now(),
    directory,
    root: directory,
    logger: silentLogger,
  });
  writeBootResults(directory, { timingsMs: { identity: 1.5 }, startedAtMs: 1.5 });
  rmSync(directory, { recursive: true });
}
