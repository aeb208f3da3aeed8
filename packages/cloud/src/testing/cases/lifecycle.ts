import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { gzipSync } from "node:zlib";
import { cloudLimits } from "../../limits.ts";
import { nowhere } from "../bench/bench.ts";
import { clause, clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

/** From launch to end. */
export const lifecycle: ConformanceTopic = {
  name: "lifecycle",
  cases: [
    clause("brings an instance up, shows it, and ends it", async (bench) => {
      const { cloud } = bench;
      const asked = bench.request();
      const launched = await cloud.launch(asked);
      assert.ok(["pending", "running"].includes(launched.state), launched.state);
      const running = await cloud.waitForRunning(launched.id);
      assert.equal(running.id, launched.id);
      assert.equal(running.state, "running");
      assert.equal(running.token, asked.token);
      assert.equal(running.name, asked.name);
      assert.equal(running.instanceType, bench.type);
      assert.equal(running.launchType, "on-demand");
      assert.deepEqual(running.tags, asked.tags);
      assert.ok(Date.parse(running.launchedAt) > 0);
      assert.deepEqual(await cloud.describe(launched.id), running);
      assert.deepEqual(await bench.listed(asked.token), [running]);
      await bench.end(launched);
      assert.equal(await cloud.describe(launched.id), undefined);
      assert.deepEqual(await bench.listed(asked.token), []);
    }),

    clause("gives each instance two addresses of its own", async (bench) => {
      const instances = await Promise.all([bench.running(), bench.running()]);
      const addresses = instances.flatMap(({ managementIp, podIp }) => [managementIp, podIp]);
      assert.ok(addresses.every((address) => address !== undefined && address !== ""));
      assert.equal(new Set(addresses).size, 4);
    }),

    clause("gives no public address to an instance that wants none", async (bench) => {
      const instance = await bench.running({ privateIpOnly: true });
      assert.equal(instance.publicIp, undefined);
    }),

    clause("keeps tags to the letter, whatever is in them", async (bench) => {
      const { cloud } = bench;
      const tags: Record<string, string> = {
        "kip.elotl.co/a-b_c.d": "x=y, z; \"quoted\" 'and' \\back",
        empty: "",
        Case: "One",
        case: "two",
        " blanks ": " kept ",
        "Größe 📦": "日本語\ttab\nline",
        __proto: "no trap",
      };
      tags["k".repeat(cloudLimits.tagKeyLength)] = "v".repeat(cloudLimits.tagValueLength);
      for (let index = Object.keys(tags).length; index < cloudLimits.tags; index++)
        tags[`tag${index}`] = String(index);
      const { id, token } = await bench.launch({ tags });
      assert.deepEqual((await cloud.waitForRunning(id)).tags, tags);
      const other = await bench.open();
      assert.deepEqual((await other.describe(id))?.tags, tags);
      assert.deepEqual((await bench.listed(token, other))[0]?.tags, tags);
    }),

    clause("gives an instance other tags, for all to see, and keeps its own", async (bench) => {
      const { cloud } = bench;
      const launched = await bench.running({ tags: { standby: "true", team: "a", empty: "" } });
      const { id, token } = launched;
      const tags = { team: "b", "Größe 📦": "日本語", name: "web", "aws:x": "" };
      const other = await bench.open();
      const shown = async (wanted: Readonly<Record<string, string>>): Promise<void> => {
        for (const look of [() => other.describe(id), async () => (await bench.listed(token))[0]])
          await bench.until(
            async () => isDeepStrictEqual((await look())?.tags, wanted) || undefined,
          );
      };
      await cloud.setTags(id, tags);
      await cloud.setTags(id, tags);
      await shown(tags);
      const many = Array.from({ length: cloudLimits.tags }, (_, at) => [`tag${at}`, String(at)]);
      const most = Object.fromEntries(many) as Record<string, string>;
      await other.setTags(id, most);
      await shown(most);
      const { tags: _changed, ...same } = (await cloud.describe(id)) ?? {};
      const { tags: _before, ...before } = launched;
      assert.deepEqual(same, before);
      await cloud.setTags(id, {});
      await shown({});
    }),

    clause("refuses to tag what is not there, and with what cannot be", async (bench) => {
      const { cloud } = bench;
      const instance = await bench.running();
      const stranger = await bench.openAsStranger();
      const long = { ["k".repeat(cloudLimits.tagKeyLength + 1)]: "" };
      await bench.refuses("CLOUD_INVALID_REQUEST", cloud.setTags(instance.id, long));
      await bench.refuses("CLOUD_NOT_FOUND", stranger.setTags(instance.id, {}));
      await bench.end(instance);
      for (const id of [instance.id, nowhere])
        await bench.refuses("CLOUD_NOT_FOUND", cloud.setTags(id, { a: "b" }));
    }),

    clause("takes user data up to the limit", async (bench) => {
      const head = "#cloud-config\n# ";
      const rest = "é".repeat((cloudLimits.userDataBytes - head.length) / 2);
      const userData = Buffer.from(head + rest);
      assert.equal((await bench.running({ userData })).state, "running");
    }),

    clauseWith(["userData"], "gives an instance its user data byte by byte", async (bench) => {
      const text = Buffer.from("#cloud-config\n{}\n# Größe 📦\n");
      // Not valid UTF-8.
      const noise = Buffer.from(Array.from({ length: cloudLimits.userDataBytes }, (_, at) => at));
      for (const userData of [text, gzipSync(text), noise]) {
        const given = await bench.userDataOf(await bench.running({ userData }));
        assert.ok(userData.equals(given), `${given.length} of ${userData.length} bytes`);
      }
    }),

    clause("ends an instance twice, at once, and one that never was", async (bench) => {
      const { cloud } = bench;
      const { id } = await bench.launch();
      const other = await bench.open();
      await Promise.all([cloud.terminate(id), other.terminate(id), cloud.terminate(id)]);
      await cloud.waitForTerminated(id);
      await cloud.terminate(id);
      await other.terminate(id);
      await cloud.terminate(nowhere);
      await cloud.waitForTerminated(nowhere);
    }),

    clause("ends an instance that another process started", async (bench) => {
      const { id } = await bench.running();
      const other = await bench.open();
      await other.terminate(id);
      await other.waitForTerminated(id);
      assert.equal(await bench.cloud.describe(id), undefined);
    }),

    clause("leaves no second instance when it ends one that is being launched", async (bench) => {
      const { cloud } = bench;
      const asked = bench.request();
      const { id } = await cloud.launch(asked);
      const other = await bench.open();
      const [again] = await Promise.all([other.launch(asked), cloud.terminate(id)]);
      const left = await bench.listed(asked.token);
      assert.ok(left.length <= 1, `${left.length} instances`);
      await cloud.terminate(again.id);
      await Promise.all([cloud.waitForTerminated(id), cloud.waitForTerminated(again.id)]);
      assert.deepEqual(await bench.listed(asked.token), []);
    }),

    clause("gives a token a new instance once the one before is gone", async (bench) => {
      const { cloud } = bench;
      const asked = bench.request();
      await bench.end(await cloud.launch(asked));
      const second = await cloud.waitForRunning((await cloud.launch(asked)).id);
      assert.deepEqual(await bench.listed(asked.token), [second]);
    }),
  ],
};
