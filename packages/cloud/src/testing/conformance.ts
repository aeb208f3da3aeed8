import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { after, before, describe, it } from "node:test";
import type { CloudDriver, Instance, LaunchRequest } from "../cloud-driver.ts";
import { cloudErrorCode } from "../errors.ts";

/** What a driver's test gives to {@link describeCloudDriver}. */
export interface CloudConformanceOptions {
  /**
   * Opens the driver, as one owner. Called several times: each call stands for another process, or for
   * kip after a restart.
   */
  readonly open: () => Promise<CloudDriver>;
  /** Opens the driver as another owner of the same cloud. */
  readonly openAsStranger: () => Promise<CloudDriver>;
  /** Names an image that boots and stays up. */
  readonly imageSpec: Readonly<Record<string, string>>;
  /** What that image writes to its console. */
  readonly consoleText: RegExp;
  /** Longest that one test may take, milliseconds. @default 120000 */
  readonly timeoutMs?: number;
}

/**
 * The tests that every {@link CloudDriver} passes. They start real instances of the smallest type, and
 * end them.
 */
export function describeCloudDriver(name: string, options: CloudConformanceOptions): void {
  describe(`${name}: CloudDriver`, { timeout: (options.timeoutMs ?? 120_000) * 4 }, () => {
    const timeout = options.timeoutMs ?? 120_000;
    let cloud: CloudDriver;
    let image: string;
    let smallest: string;

    before(async () => {
      cloud = await options.open();
      image = await cloud.resolveImage(options.imageSpec);
      const offers = [...(await cloud.instanceTypes())];
      smallest = offers.sort((a, b) => a.memoryBytes - b.memoryBytes)[0]?.name ?? "";
    });

    after(async () => {
      for (const instance of await cloud.list()) await cloud.terminate(instance.id);
      await cloud[Symbol.asyncDispose]();
    });

    const request = (changes: Partial<LaunchRequest> = {}): LaunchRequest => ({
      token: randomUUID(),
      name: "conformance",
      instanceType: smallest,
      launchType: "on-demand",
      image,
      rootDiskBytes: 0,
      userData: "#cloud-config\n{}",
      privateIpOnly: true,
      tags: { purpose: "conformance" },
      ...changes,
    });
    const end = async (instance: Instance): Promise<void> => {
      await cloud.terminate(instance.id);
      await cloud.waitForTerminated(instance.id);
    };

    it("offers types with a size and a price", { timeout }, async () => {
      for (const offer of await cloud.instanceTypes()) {
        assert.ok(offer.cpuMilli > 0 && offer.memoryBytes > 0, offer.name);
        assert.ok((offer.pricePerHour["on-demand"] ?? -1) >= 0, offer.name);
      }
      assert.notEqual(smallest, "");
    });

    it("brings an instance up, shows it, and ends it", { timeout }, async () => {
      const asked = request();
      const launched = await cloud.launch(asked);
      const running = await cloud.waitForRunning(launched.id);
      assert.equal(running.state, "running");
      assert.equal(running.token, asked.token);
      assert.equal(running.instanceType, smallest);
      assert.deepEqual(running.tags, asked.tags);
      assert.ok(running.managementIp && running.podIp);
      assert.notEqual(running.managementIp, running.podIp);
      assert.deepEqual(await cloud.describe(launched.id), running);
      assert.ok((await cloud.list()).some((instance) => instance.id === launched.id));
      await end(launched);
      assert.equal(await cloud.describe(launched.id), undefined);
      assert.ok(!(await cloud.list()).some((instance) => instance.id === launched.id));
    });

    it("gives one instance for one token, asked at once and again", { timeout }, async () => {
      const asked = request();
      await using other = await options.open();
      const answers = await Promise.all([
        cloud.launch(asked),
        other.launch(asked),
        cloud.launch(asked),
      ]);
      const ids = new Set([...answers, await cloud.launch(asked)].map((instance) => instance.id));
      assert.equal(ids.size, 1);
      const listed = (await other.list()).filter((instance) => instance.token === asked.token);
      assert.equal(listed.length, 1);
      await end(listed[0] ?? assert.fail());
    });

    it("gives instances addresses of their own", { timeout }, async () => {
      const instances = await Promise.all([cloud.launch(request()), cloud.launch(request())]);
      const running = await Promise.all(instances.map(({ id }) => cloud.waitForRunning(id)));
      const addresses = running.flatMap(({ managementIp, podIp }) => [managementIp, podIp]);
      assert.equal(new Set(addresses).size, 4);
      for (const instance of instances) await end(instance);
    });

    it("finds running instances again after a restart", { timeout }, async () => {
      const launched = await cloud.waitForRunning((await cloud.launch(request())).id);
      await using restarted = await options.open();
      const found = (await restarted.list()).find(({ id }) => id === launched.id);
      assert.deepEqual(found, launched);
      await end(launched);
    });

    it("hides instances of other owners and leaves them alone", { timeout }, async () => {
      const launched = await cloud.launch(request());
      await using stranger = await options.openAsStranger();
      assert.deepEqual(await stranger.list(), []);
      assert.equal(await stranger.describe(launched.id), undefined);
      await stranger.terminate(launched.id);
      assert.ok(await cloud.describe(launched.id));
      await end(launched);
    });

    it("ends an instance twice, at once, and one that never was", { timeout }, async () => {
      const launched = await cloud.launch(request());
      await Promise.all([cloud.terminate(launched.id), cloud.terminate(launched.id)]);
      await cloud.waitForTerminated(launched.id);
      await cloud.terminate(launched.id);
      await cloud.terminate("i-00000000000000000");
      await cloud.waitForTerminated("i-00000000000000000");
    });

    it("tells a waiter that an instance is gone, in another process too", { timeout }, async () => {
      const launched = await cloud.waitForRunning((await cloud.launch(request())).id);
      await using other = await options.open();
      const gone = [cloud.waitForTerminated(launched.id), other.waitForTerminated(launched.id)];
      await cloud.terminate(launched.id);
      await Promise.all(gone);
    });

    it("lets a waiter go when its signal aborts", { timeout }, async () => {
      const launched = await cloud.launch(request());
      const reason = new Error("enough");
      const aborter = new AbortController();
      const waiting = assert.rejects(cloud.waitForTerminated(launched.id, aborter.signal), reason);
      await setImmediate();
      aborter.abort(reason);
      await waiting;
      await end(launched);
    });

    it("says nothing of instances that were ended on purpose", { timeout }, async () => {
      const heard: string[] = [];
      await using other = await options.open();
      const stop = other.onTerminated((instance) => heard.push(instance.id));
      const launched = await cloud.launch(request());
      await other.describe(launched.id);
      const gone = other.waitForTerminated(launched.id);
      await end(launched);
      await gone;
      stop();
      assert.deepEqual(heard, []);
    });

    it("shows the end of the console", { timeout }, async () => {
      const launched = await cloud.waitForRunning((await cloud.launch(request())).id);
      let text = "";
      // Consoles of clouds lag; no cloud tells when there is more to read.
      while (!options.consoleText.test(text)) {
        text = await cloud.consoleOutput(launched.id, 4096);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      assert.ok((await cloud.consoleOutput(launched.id, 5)).length <= 5);
      await end(launched);
    });

    it("knows what does not exist", { timeout }, async () => {
      const code = (error: unknown): string => cloudErrorCode(error);
      const notFound = (error: unknown): boolean => code(error) === "CLOUD_NOT_FOUND";
      assert.equal(await cloud.describe("i-00000000000000000"), undefined);
      await assert.rejects(cloud.waitForRunning("i-00000000000000000"), notFound);
      await assert.rejects(cloud.consoleOutput("i-00000000000000000", 10), notFound);
      await assert.rejects(cloud.resolveImage({ name: "no-such-image" }), notFound);
      await assert.rejects(
        cloud.launch(request({ instanceType: "no-such-type" })),
        (error) => code(error) === "CLOUD_INVALID_REQUEST",
      );
      await assert.rejects(
        cloud.launch(request({ userData: "x".repeat(16_001) })),
        (error) => code(error) === "CLOUD_INVALID_REQUEST",
      );
    });
  });
}
