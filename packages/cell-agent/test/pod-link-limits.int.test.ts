// Limits of a pod's link in the kernel, in a network namespace of their own.
import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";
import type { PodLink } from "../src/network/pod-link.ts";

const program = path.join(import.meta.dirname, "set-up-links.ts");
/** The devices in /sys are those of the namespace that mounts it. */
const script = `mount -t sysfs none /sys && ip link add kip-pod type veth peer name eth0 && exec "$@"`;

/** The limits after each of the links, of which each one has the limits of the next document. */
async function limitsAfter(...links: readonly Partial<PodLink>[]): Promise<readonly string[]> {
  const whole = links.map((link) => ({ podAddresses: [], hostPorts: [], bandwidth: {}, ...link }));
  const node = [process.execPath, program, JSON.stringify(whole)];
  const words = ["--net", "--mount", "sh", "-c", script, "sh", ...node];
  const { stdout } = await runCommand("unshare", words);
  return stdout.split("\n").slice(0, -1);
}

describe("limits of a pod's link", { timeout: 60_000 }, () => {
  const [slow, fast] = [{ ingressBits: 1e6 }, { ingressBits: 5e6, egressBits: 2e6 }];

  it("are those of the last try before a container has run", async () => {
    const shown = await limitsAfter(
      { bandwidth: fast, hasRun: false },
      { bandwidth: slow, hasRun: false },
      { hasRun: false },
    );
    assert.deepEqual(shown, ["kip-pod 5Mbit, kip-pod-out 2Mbit", "kip-pod 1Mbit", ""]);
  });

  it("stay as they are from then on, whatever the next document says", async () => {
    const later = { bandwidth: fast, hasRun: true };
    const limited = await limitsAfter({ bandwidth: slow, hasRun: false }, later, later);
    assert.deepEqual(limited, ["kip-pod 1Mbit", "kip-pod 1Mbit", "kip-pod 1Mbit"]);
    assert.deepEqual(await limitsAfter({ hasRun: false }, later), ["", ""]);
  });

  it("are set on a link that was made again", async () => {
    const shown = await limitsAfter({ bandwidth: fast, hasRun: true });
    assert.deepEqual(shown, ["kip-pod 5Mbit, kip-pod-out 2Mbit"]);
  });
});
