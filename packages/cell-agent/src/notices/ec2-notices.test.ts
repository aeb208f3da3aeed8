import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { watchEc2Notices } from "./ec2-notices.ts";

const action = "/meta-data/spot/instance-action";
const rebalance = "/meta-data/events/recommendations/rebalance";

function watch(lifeCycle: string) {
  const clock = new ManualClock();
  const paths = new Map([["/meta-data/instance-life-cycle", lifeCycle]]);
  const stop = new AbortController();
  const heard: string[] = [];
  const looks: string[] = [];
  const world = { clock, paths, stop, heard, looks, failure: undefined as Error | undefined };
  const read = async (path: string): Promise<string | undefined> => {
    looks.push(path);
    if (world.failure) throw world.failure;
    return await Promise.resolve(paths.get(path));
  };
  const ended = watchEc2Notices(
    {
      read,
      onEnd: (endsAt) => heard.push(endsAt),
      onRebalance: () => heard.push("rebalance"),
      clock,
      logger: silentLogger,
    },
    stop.signal,
  );
  return {
    clock,
    paths,
    stop,
    heard,
    looks,
    ended,
    fail: (error?: Error) => (world.failure = error),
  };
}

describe("watchEc2Notices()", () => {
  it("reports a recommendation once and the end within 5 s, and then stops polling", async () => {
    const { clock, paths, heard, ended } = watch("spot");
    await clock.advance(60_000);
    assert.deepEqual(heard, []);
    paths.set(rebalance, '{"noticeTime": "2026-01-02T03:00:00Z"}');
    await clock.advance(15_000);
    assert.deepEqual(heard, ["rebalance"]);
    paths.set(action, '{"action": "terminate", "time": "2026-01-02T03:04:05Z"}');
    await clock.advance(5000);
    await ended;
    assert.deepEqual(heard, ["rebalance", "2026-01-02T03:04:05Z"]);
  });

  it("looks no more on a machine that is not taken back", async () => {
    const { looks, ended } = watch("on-demand");
    await ended;
    assert.deepEqual(looks, ["/meta-data/instance-life-cycle"]);
  });

  it("continues after a failure and after a notice that cannot be read", async () => {
    const { clock, paths, heard, fail, ended } = watch("spot");
    await clock.advance(5000);
    fail(new Error("no answer"));
    await clock.advance(10_000);
    fail(undefined);
    for (const broken of ["", "{}", '{"time": 1}', '{"time": "soon"}']) {
      paths.set(action, broken);
      await clock.advance(5000);
    }
    assert.deepEqual(heard, []);
    paths.set(action, '{"action": "stop", "time": "2026-01-02T03:04:05.123Z"}');
    await clock.advance(5000);
    await ended;
    assert.deepEqual(heard, ["2026-01-02T03:04:05Z"]);
  });

  it("ends with its signal", async () => {
    const { stop, clock, ended } = watch("spot");
    await clock.advance(1000);
    stop.abort();
    await ended;
  });
});
