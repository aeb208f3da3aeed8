import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { bucketCount, type PolicyView } from "@kip/network-view";
import { NetworkRules, type RoutingPlace } from "../src/index.ts";
import { cable, podAddresses, TestNetwork } from "./test-network.ts";

const place: RoutingPlace = {
  podAddresses,
  cable,
  nodeAddresses: [],
  serviceRanges: [],
};

const repeated = (rule: string, count: number): string => `    ${rule}\n`.repeat(count);

/**
 * A chain that packets are in for most of the time, between that of the policy in force and that of a new one: so some of them have
 * passed the new one before it is in force, and come to the old one afterwards.
 */
const slowTable = `
table ip slow {
  chain some {
${repeated("ip saddr 192.0.2.1 drop", 100)}  }
  chain many {
${repeated("jump some", 30)}  }
  chain through {
    type filter hook forward priority filter - 5
${repeated("jump many", 30)}  }
}
`;

/** None lets in 10.0.0.11. */
const policies: Readonly<Record<string, PolicyView>> = {
  "lets nothing in": { ingress: [] },
  "lets other peers in": { ingress: [{ groups: ["others"] }] },
  "denies a peer": { admin: { ingress: [{ action: "deny", groups: ["peers"] }] } },
};

describe("NetworkRules, when an earlier process has rules in force", () => {
  let network: TestNetwork;
  before(async () => {
    network = await TestNetwork.open();
    await network.pod.listen(podAddresses[0], 8080, "udp");
  });
  after(async () => await network[Symbol.asyncDispose]());

  const group = { kind: "group", change: "reset", remove: [] } as const;
  const groups = [
    { ...group, name: "peers", add: ["10.0.0.11"] },
    { ...group, name: "others", add: ["10.0.0.12"] },
  ];
  const buckets = Array.from({ length: bucketCount }, (_, bucket) => bucket);
  /** Has a new process put everything in force. */
  const startAgain = async (
    policy: PolicyView,
    runNft = async (text: string) => await network.nft(text),
  ): Promise<void> => {
    const forget = async (): Promise<void> => {};
    const options = { place, takesOver: true, runNft, forget, logger: silentLogger };
    await new NetworkRules(options).apply({
      number: 0,
      services: new Map(),
      buckets,
      groups,
      policy,
    });
  };
  const flood = async (timeoutMs: number): Promise<string> =>
    await network.others.ask({ do: "flood", host: podAddresses[0], port: 8080, timeoutMs });
  const tables = async (): Promise<readonly string[]> =>
    (await network.nft("list tables\n")).match(/kip_(policy|services)\w*/g) ?? [];

  for (const [name, policy] of Object.entries(policies))
    it(`lets no packet pass while it puts a policy in force that ${name}`, async () => {
      await startAgain(policy);
      const over = new AbortController();
      const answer = flood(5000).finally(() => over.abort());
      while (!over.signal.aborted) {
        await network.nft(slowTable);
        await startAgain(policy);
        await network.nft("delete table ip slow\n");
      }
      assert.equal(await answer, "silent");
    });

  it("goes on after one that ended before it removed an old table, and keeps the newer policy meanwhile", async () => {
    for (const isOfServices of [false, true]) {
      const [lax, strict] = [{}, { ingress: [] }];
      await startAgain(lax);
      assert.equal(await flood(20_000), "answered");
      let changes = 0;
      const killed = startAgain(strict, async (text) => {
        if (!text.startsWith("list")) changes++;
        // The first one makes the policy's table; the last one alone only removes one.
        if (isOfServices ? !/[{]|^list/.test(text) : changes === 2) throw new Error("killed");
        return await network.nft(text);
      });
      await assert.rejects(killed, /killed/);
      const answer = flood(1000);
      await startAgain(strict);
      assert.equal(await answer, "silent");
      const there = await tables();
      assert.equal(new Set(there).size, 2, there.join(" "));
    }
  });
});
