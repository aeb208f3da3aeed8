import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ProgramArgsInput } from "./program-args.ts";
import { apiServerArgs, controllerManagerArgs, schedulerArgs } from "./program-args.ts";

const pair = { certificate: "crt", key: "key" };
const input: ProgramArgsInput = {
  certificates: {
    apiServer: pair,
    clusterCa: pair,
    kubeletClient: pair,
    frontProxyCa: pair,
    frontProxyClient: pair,
    tokenKey: { publicPath: "pub", keyPath: "key" },
  },
  bindAddress: "127.0.0.1",
  advertiseAddress: "198.18.0.1",
  port: 6443,
  serviceCidr: "10.96.0.0/16",
  featureGates: {},
  runtimeConfig: {},
  controllerManagerKubeconfig: "controller-manager.kubeconfig",
  schedulerKubeconfig: "scheduler.kubeconfig",
};
const all = [apiServerArgs, controllerManagerArgs, schedulerArgs];

describe("flags of the programs", () => {
  it("leave feature gates and versions of the API as they are by default", () => {
    for (const args of all)
      assert.doesNotMatch(args(input).join(" "), /feature-gates|runtime-config/);
  });

  it("have the same feature gates", () => {
    const gates = { ...input, featureGates: { EnvFiles: true, HostnameOverride: false } };
    for (const args of all)
      assert.ok(args(gates).includes("--feature-gates=EnvFiles=true,HostnameOverride=false"));
  });

  it("have an audit of kip's requests for the API server alone, if it is asked for", () => {
    const audited = { ...input, audit: { policy: "/p.json", log: "/a.log" } };
    const flags = ["--audit-policy-file=/p.json", "--audit-log-path=/a.log"];
    for (const args of all)
      assert.deepEqual(
        args(audited).filter((flag) => flag.startsWith("--audit")),
        args === apiServerArgs ? flags : [],
      );
    assert.doesNotMatch(apiServerArgs(input).join(" "), /audit/);
  });

  it("have served versions of the API for the API server alone", () => {
    const served = { ...input, runtimeConfig: { "certificates.k8s.io/v1beta1": true } };
    const flag = "--runtime-config=certificates.k8s.io/v1beta1=true";
    assert.deepEqual(
      all.map((args) => args(served).includes(flag)),
      [true, false, false],
    );
  });
});
