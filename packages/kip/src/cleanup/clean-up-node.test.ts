import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError, type DedicatedHost } from "@kip/cloud";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import { ManualClock } from "@kip/testing";
import { ApiServer } from "../testing/faults/api-server.ts";
import { settled } from "../testing/settled.ts";
import { testHost, testHosts } from "../testing/test-hosts.ts";
import { cleanUpNode } from "./clean-up-node.ts";
import { findLeftOvers } from "./left-overs.ts";

describe("cleanUpNode()", () => {
  it("gives back the hosts that the node's instances have left, and leaves those of other nodes", async () => {
    await using world = openWorld();
    const { driver, hosts, cleanUp, progress, launch } = world;
    const own = await launch("without-a-cell", "here");
    const theirs = await launch("theirs", "there");
    const other = testHost("h-2", [theirs]);
    hosts.hosts = [testHost("h-1", [own]), other];
    // The cloud shows the instance on its host until a moment after its end.
    hosts.list = async () => {
      const living = new Set((await driver.list()).map(({ id }) => id));
      if (hosts.releases > 1) hosts.hosts = hosts.hosts.map((each) => withoutEnded(each, living));
      return hosts.hosts;
    };
    assert.equal(await cleanUp(), true);
    assert.deepEqual(hosts.hosts, [other]);
    assert.ok(progress.includes("Gave back dedicated host h-1"), progress.join("\n"));
  });

  it("says which host the cloud keeps, and that the instances have ended all the same", async () => {
    await using world = openWorld();
    const { hosts, cleanUp, progress } = world;
    hosts.hosts = [testHost("h-1")];
    hosts.kept.set("h-1", "it is less than 24 hours old");
    assert.equal(await cleanUp(), true);
    assert.ok(
      progress.includes("Could not give back dedicated host h-1: it is less than 24 hours old"),
      progress.join("\n"),
    );
  });

  it("waits until a host is old enough to be given back", async () => {
    await using world = openWorld();
    const { hosts, cleanUp, progress } = world;
    hosts.hosts = [testHost("h-1")];
    const releaseEmpty = hosts.releaseEmpty.bind(hosts);
    let looks = 0; // one every 10 s
    hosts.releaseEmpty = async () => (++looks <= 12 ? [] : await releaseEmpty());
    assert.equal(await cleanUp(), true);
    assert.ok(progress.includes("Gave back dedicated host h-1"), progress.join("\n"));
  });

  it("waits five minutes for an instance that the cloud does not end, and goes on without it", async () => {
    await using world = openWorld({ stopMs: 3_600_000 });
    const { hosts, cleanUp, launch, progress, clock } = world;
    const id = await launch("without-a-cell", "here");
    hosts.hosts = [testHost("h-1")];
    const began = clock.monotonic();
    assert.equal(await cleanUp(), false);
    const took = (clock.monotonic() - began) / 1000;
    assert.ok(took >= 300 && took < 400, `${took} s`);
    assert.ok(progress.includes("Gave back dedicated host h-1"), progress.join("\n"));
    const ofIt = progress.filter((line) => line.includes(id));
    assert.deepEqual(ofIt, [
      `Ending instance ${id} of "without-a-cell"`,
      `Could not end instance ${id}: The cloud still ends it`,
    ]);
  });

  it("ends instances without the right to list dedicated hosts, and says that those are not known", async () => {
    await using world = openWorld();
    const { hosts, driver, cleanUp, launch, leftOvers } = world;
    await launch("without-a-cell", "here");
    const refused = async () =>
      await Promise.reject(
        new CloudError("CLOUD_AUTH", "Cannot list dedicated hosts: no right", {
          remedy: "Allow it",
        }),
      );
    Object.assign(hosts, { list: refused, releaseEmpty: refused });
    assert.equal(await cleanUp(), true);
    assert.deepEqual(await driver.list(), []);
    const { hostsUnknown } = await leftOvers();
    assert.equal(hostsUnknown, "Cannot list dedicated hosts: no right. Allow it");
    hosts.list = async () =>
      await Promise.reject(
        new CloudError("CLOUD_UNAVAILABLE", "Cannot list dedicated hosts: down"),
      );
    await assert.rejects(leftOvers(), { code: "CLOUD_UNAVAILABLE" });
  });
});

/** @param stopMs how long an instance takes to end @default 0 */
function openWorld({ stopMs = 0 } = {}) {
  const clock = new ManualClock();
  const cloud = createSimulatedCloud({ clock, stopMs });
  const hosts = testHosts();
  const driver = Object.assign(cloud.open({ owner: "kip" }), { hosts });
  const progress: string[] = [];
  const { client } = new ApiServer(clock);
  return {
    clock,
    driver,
    hosts,
    progress,
    leftOvers: async () =>
      await findLeftOvers({ driver, client, controllerID: "kip", clusterID: "here" }),
    launch: async (token: string, cluster: string): Promise<string> => {
      const { id } = await driver.launch({
        token,
        name: token,
        instanceType: "sim.1",
        launchType: "on-demand",
        image: "cell",
        rootDiskBytes: 0,
        userData: new Uint8Array(),
        privateIpOnly: true,
        tags: { "kip-cluster": cluster },
      });
      return id;
    },
    cleanUp: async () =>
      await settled(
        cleanUpNode({
          driver,
          client,
          controllerID: "kip",
          clusterID: "here",
          nodeName: "node",
          endsPods: true,
          clock,
          signal: new AbortController().signal,
          onProgress: (message) => void progress.push(message),
        }),
        clock,
      ),
    [Symbol.asyncDispose]: async () => await driver[Symbol.asyncDispose](),
  };
}

function withoutEnded(host: DedicatedHost, living: ReadonlySet<string>): DedicatedHost {
  return { ...host, instanceIds: host.instanceIds.filter((id) => living.has(id)) };
}
