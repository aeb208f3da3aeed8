import { after, before, describe, it } from "node:test";
import { Bench, prepareBench, type BenchFacts } from "./bench/bench.ts";
import { whySkipped } from "./bench/conformance-case.ts";
import type { CloudConformanceOptions } from "./bench/conformance-options.ts";
import { conformanceTopics } from "./conformance-topics.ts";

/**
 * Defines the tests that every cloud driver must pass, one per clause of the contract. They start real instances of the
 * smallest types, and end them.
 *
 * @example
 * ```ts
 * import { createSimulatedCloud } from "@kip/cloud/simulated";
 * import { describeCloudDriver } from "@kip/cloud/testing";
 *
 * const cloud = createSimulatedCloud();
 * describeCloudDriver("my cloud", {
 *   open: async () => await Promise.resolve(cloud.open({ owner: "tests" })),
 *   openAsStranger: async () => await Promise.resolve(cloud.open({ owner: "another" })),
 *   imageSpec: { name: "cell" },
 *   consoleText: /Simulated instance/,
 *   topics: ["offers", "lifecycle"], // without it, the whole contract
 * });
 * ```
 */
export function describeCloudDriver(name: string, options: CloudConformanceOptions): void {
  const timeout = options.timeoutMs ?? 120_000;
  describe(`${name}: CloudDriver`, () => {
    let facts: BenchFacts;

    before(async () => {
      facts = await prepareBench(options);
    });

    after(async () => {
      for (const { id } of await facts.cloud.list()) await facts.cloud.terminate(id);
      await facts.cloud[Symbol.asyncDispose]();
    });

    for (const topic of conformanceTopics) {
      if (options.topics?.includes(topic.name) === false) continue;
      describe(topic.name, () => {
        for (const each of topic.cases) {
          const skip = whySkipped(each, options) ?? false;
          it(each.name, { timeout, skip }, async ({ signal }) => {
            const bench = new Bench(facts, options, signal);
            try {
              await each.run(bench);
            } finally {
              await bench.clear();
            }
          });
        }
      });
    }
  });
}
