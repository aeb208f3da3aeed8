// A pod's link in the kernel, in its own network namespace.
import assert from "node:assert/strict";
import path from "node:path";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";
import type { PodLink } from "../src/network/pod-link.ts";
import type { LinkInKernel } from "./set-up-links.ts";

const program = path.join(import.meta.dirname, "set-up-links.ts");
/** /sys shows the devices of the namespace that mounts it. */
const script = `mount -t sysfs none /sys && ip link add kip-pod type veth peer name eth0 && exec "$@"`;

/** What there is after each of the links, of which each one has what the next document says. */
async function after(...links: readonly Partial<PodLink>[]): Promise<readonly LinkInKernel[]> {
  const base = { podAddresses: [], hostPorts: [], bandwidth: {}, hasRules: true };
  const whole = links.map((link) => ({ ...base, ...link }));
  const node = [process.execPath, program, JSON.stringify(whole)];
  const words = ["--net", "--mount", "sh", "-c", script, "sh", ...node];
  const { stdout } = await runCommand("unshare", words);
  const lines = stdout.split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as LinkInKernel); // set-up-links.ts
}

async function limitsAfter(...links: readonly Partial<PodLink>[]): Promise<readonly string[]> {
  return (await after(...links)).map(({ limits }) => limits);
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

describe("tables that were prepared", { timeout: 60_000 }, () => {
  const closedAfter = async (...links: readonly Partial<PodLink>[]): Promise<readonly boolean[]> =>
    (await after(...links)).map(({ isClosed }) => isClosed);

  it("let nothing pass before a pod has its rules, and everything if it gets none", async () => {
    const [closed, open] = [{ hasRules: true }, { hasRules: false }];
    assert.deepEqual(await closedAfter(closed, open, open), [true, false, false]);
  });

  it("stay when a later document of a pod that has run has no network", async () => {
    assert.deepEqual(await closedAfter({ hasRules: false, hasRun: true }), [true]);
  });
});
