import assert from "node:assert/strict";
import { isRetryable } from "@kip/base";
import { cloudErrorCodes, type CloudErrorCode } from "../../errors.ts";
import { cloudLimits } from "../../limits.ts";
import { nowhere } from "../bench/bench.ts";
import { clause, clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

const worthRepeating: readonly CloudErrorCode[] = [
  "CLOUD_NO_CAPACITY",
  "CLOUD_QUOTA",
  "CLOUD_THROTTLED",
  "CLOUD_UNAVAILABLE",
];

/** Every failure has a code of the closed set and says whether to try again. */
export const errors: ConformanceTopic = {
  name: "errors",
  cases: [
    clause("knows what does not exist", async (bench) => {
      const { cloud } = bench;
      assert.equal(await cloud.describe(nowhere), undefined);
      await bench.refuses("CLOUD_NOT_FOUND", cloud.waitForRunning(nowhere));
      await bench.refuses("CLOUD_NOT_FOUND", cloud.consoleOutput(nowhere, 10));
      await bench.refuses("CLOUD_NOT_FOUND", cloud.resolveImage({ name: "no-such-image" }));
      await bench.refuses("CLOUD_NOT_FOUND", bench.launch({ image: "no-such-image" }));
    }),

    clause("refuses what can never work, and starts nothing", async (bench) => {
      const { tagKeyLength, tagValueLength, tags, userDataBytes } = cloudLimits;
      const many = Array.from({ length: tags + 1 }, (_, index) => [`tag${index}`, ""]);
      for (const changes of [
        { instanceType: "no-such-type" },
        { userData: new Uint8Array(userDataBytes + 1) },
        { tags: { "": "no key" } },
        { tags: { ["k".repeat(tagKeyLength + 1)]: "long key" } },
        { tags: { long: "v".repeat(tagValueLength + 1) } },
        { tags: Object.fromEntries(many) as Record<string, string> },
      ]) {
        const request = bench.request(changes);
        await bench.refuses("CLOUD_INVALID_REQUEST", bench.cloud.launch(request));
        assert.deepEqual(await bench.listed(request.token), []);
      }
    }),

    clauseWith(["faults"], "answers with each code of the closed set", async (bench) => {
      const { cloud, faults } = bench;
      for (const code of cloudErrorCodes) {
        await faults.fail({ operation: "list", code });
        await assert.rejects(cloud.list(), (error) => {
          assert.ok(error instanceof Error && "code" in error);
          assert.equal(error.code, code);
          assert.equal(isRetryable(error), worthRepeating.includes(code), code);
          assert.match(error.message, /^Cannot /);
          return true;
        });
        await cloud.list();
      }
    }),

    clauseWith(["faults"], "fails each call that has a fault, once", async (bench) => {
      const { cloud, faults, options } = bench;
      const { id } = await bench.running();
      const calls = {
        instanceTypes: () => cloud.instanceTypes(),
        resolveImage: () => cloud.resolveImage(options.imageSpec),
        waitForRunning: () => cloud.waitForRunning(id),
        describe: () => cloud.describe(id),
        consoleOutput: () => cloud.consoleOutput(id, 10),
        networkFacts: () => cloud.networkFacts(),
        terminate: () => cloud.terminate(id),
        waitForTerminated: () => cloud.waitForTerminated(id),
      } as const;
      for (const [operation, call] of Object.entries(calls)) {
        await faults.fail({
          operation: operation as keyof typeof calls, // the keys of the table above
          code: "CLOUD_UNAVAILABLE",
        });
        await bench.refuses("CLOUD_UNAVAILABLE", call());
        await call();
      }
    }),

    clauseWith(["faults"], "throttles as many calls as asked, of all processes", async (bench) => {
      const { cloud, faults } = bench;
      const other = await bench.open();
      await faults.throttle({ calls: 3 });
      await bench.refuses("CLOUD_THROTTLED", cloud.list());
      await bench.refuses("CLOUD_THROTTLED", other.describe(nowhere));
      await bench.refuses("CLOUD_THROTTLED", bench.launch());
      await cloud.list();
    }),

    clauseWith(["faults"], "throttles until the fault is cleared", async (bench) => {
      const { cloud, faults } = bench;
      await faults.throttle({ ms: 3_600_000 });
      for (let call = 0; call < 5; call++) await bench.refuses("CLOUD_THROTTLED", cloud.list());
      await faults.clear();
      await cloud.list();
      await faults.throttle({ ms: 0 });
      await cloud.list();
    }),

    clauseWith(["faults"], "ends an instance although the answer is lost", async (bench) => {
      const { cloud, faults } = bench;
      const { id } = await bench.running();
      await faults.fail({ operation: "terminate", code: "CLOUD_UNAVAILABLE", moment: "after" });
      await bench.refuses("CLOUD_UNAVAILABLE", cloud.terminate(id));
      await cloud.waitForTerminated(id);
      await cloud.terminate(id);
    }),
  ],
};
