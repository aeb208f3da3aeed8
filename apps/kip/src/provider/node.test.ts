import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseOptions } from "@kip/base";
import { nodeFlags } from "./node.ts";
import { providerOptions } from "./provider-options.ts";

describe("nodeFlags()", () => {
  const read = (...args: readonly string[]) =>
    nodeFlags(parseOptions(providerOptions, args, { KUBELET_PORT: "10350" }));

  it("are those of the command line, of variables, and the defaults", () => {
    const { port, taints, limitMs, metrics } = read(
      "--startup-timeout=1m",
      "--metrics-addr=:10255",
    );
    assert.deepEqual([port, limitMs, metrics?.port], [10_350, 60_000, 10_255]);
    const taint = { key: "virtual-kubelet.io/provider", value: "kip", effect: "NoSchedule" };
    assert.deepEqual(taints, [taint]);
  });

  for (const flag of [
    "--full-resync-period=0",
    "--stream-idle-timeout=5",
    "--startup-timeout=1x",
    "--taint-effect=None",
    "--disable-taint=maybe",
    "--rotate-server-certificates=1x",
    "--kubelet-port=70000",
    "--kubelet-access=all",
    "--metrics-addr=10255",
  ])
    it(`refuse ${flag}, all before the node is started`, () => {
      assert.throws(() => read(flag), { code: "OPTION_INVALID" });
    });
});
