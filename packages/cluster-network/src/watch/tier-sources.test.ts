import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { it } from "node:test";
import { silentLogger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { TierSources } from "./tier-sources.ts";

const name = "clusternetworkpolicies.policy.networking.k8s.io";

function definition(resourceVersion: string, ...versions: readonly string[]) {
  return {
    metadata: { name, uid: "d", resourceVersion },
    spec: { versions: versions.map((version) => ({ name: version, served: true })) },
    status: { conditions: [{ type: "Established", status: "True" }] },
  };
}

it("TierSources keeps policies in force until those of another version are known", async () => {
  const watches = new PassThrough();
  const answer = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const stop = new AbortController();
  const policy = (uid: string) => ({ metadata: { name: uid, uid, resourceVersion: "5" } });
  const client = {
    list: async (path: string, { query }: { query: { fieldSelector?: string } }) => {
      const metadata = { resourceVersion: "1" };
      if (path.includes("customresourcedefinitions"))
        return {
          metadata,
          items: query.fieldSelector?.includes("clusternetwork")
            ? [definition("1", "v1alpha2")]
            : [],
        };
      if (path.includes("v1alpha2")) return { metadata, items: [policy("a"), policy("b")] };
      asked.resolve();
      await answer.promise;
      return { metadata, items: [policy("a"), policy("c")] };
    },
    stream: async (_: string, { query }: { query: { fieldSelector?: string } }) =>
      await Promise.resolve(
        query.fieldSelector?.includes("clusternetwork") ? watches : new PassThrough(),
      ),
  };
  const events: string[] = [];
  const last = Promise.withResolvers<void>();
  const sources = new TierSources({
    client: client as unknown as ApiClient,
    clock: new ManualClock(),
    logger: silentLogger,
    signal: stop.signal,
    onPolicy: (type, _, { metadata }) => {
      events.push(`${type} ${metadata.name}`);
      if (metadata.name === "c") last.resolve();
    },
  });
  await sources.synced(stop.signal);
  const object = definition("2", "v1alpha2", "v1beta1");
  watches.write(`${JSON.stringify({ type: "MODIFIED", object })}\n`);
  await asked.promise;
  assert.deepEqual(events, ["added a", "added b"]);
  answer.resolve();
  await last.promise;
  assert.deepEqual(events.slice(2), ["deleted b", "updated a", "added c"]);
  stop.abort();
});
