import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { EventReference } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { ofServices, RefusalLog, type RefusalLogOptions } from "./refusal-log.ts";

describe("RefusalLog", () => {
  it("reports each namespace once in ten minutes, in the log and at the Service", async () => {
    const clock = new ManualClock();
    const warned: string[] = [];
    const recorded: string[] = [];
    const options = {
      clock,
      logger: {
        ...silentLogger,
        warn: (_message, fields) => void warned.push(String(fields?.["example"])),
      },
      events: {
        record: ({ kind, namespace, name }: EventReference, { reason }: { reason: string }) =>
          void recorded.push(`${reason} ${kind} ${namespace}/${name}`),
      },
    } satisfies RefusalLogOptions;
    const log = new RefusalLog(options, ofServices);
    const report = (namespace: string, name: string): void =>
      log.report(
        { namespace, count: 1, example: `${namespace}/${name}` },
        { apiVersion: "v1", kind: "Service", namespace, name, uid: name },
      );
    for (const name of ["web", "db"]) report("shop", name);
    report("other", "web");
    await clock.advance(9 * 60_000);
    report("shop", "db");
    assert.deepEqual(warned, ["shop/web", "other/web"]);
    await clock.advance(60_000);
    report("shop", "db");
    assert.deepEqual(warned, ["shop/web", "other/web", "shop/db"]);
    assert.deepEqual(
      recorded,
      warned.map((example) => `NetworkTooLarge Service ${example}`),
    );
  });
});
