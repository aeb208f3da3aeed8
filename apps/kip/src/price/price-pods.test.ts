import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openCatalog } from "@kip/instance-types";
import type { KipError } from "../errors.ts";
import { pricedPods } from "./priced-document.ts";
import { priceJson } from "./price-json.ts";
import { pricePods, unpricedError } from "./price-pods.ts";
import { priceText } from "./price-text.ts";

const aws = openCatalog("aws", "us-east-1");

function pod(resources: object, more: { metadata?: object; spec?: object } = {}) {
  return pricedPods({
    kind: "Pod",
    metadata: { name: "web", ...more.metadata },
    spec: { containers: [{ name: "a", resources }], ...more.spec },
  });
}

const priceOf = (pods: ReturnType<typeof pod>, defaultType?: string) =>
  pricePods(pods, aws, defaultType).priced[0];
const choiceOf = (...args: Parameters<typeof pod>): string | undefined =>
  priceOf(pod(...args))?.choice.type.name;
const errorOf = (...args: Parameters<typeof pod>): KipError =>
  unpricedError(pricePods(pod(...args), aws, undefined).unpriced) ?? assert.fail("it has a price");
const selector = (nodeSelector: object) => ({ spec: { nodeSelector } });
const annotations = (text: object) => ({ metadata: { annotations: text } });

describe("pricePods()", () => {
  it("reads selectors and annotations as kip does", () => {
    const small = { limits: { cpu: "500m", memory: "1Gi" } };
    assert.equal(choiceOf(small), "t3a.small");
    assert.equal(choiceOf(small, selector({ "kubernetes.io/arch": "arm64" })), "t4g.small");
    const inTerm = { key: "kubernetes.io/arch", operator: "In", values: ["amd64", "arm64"] };
    const required = { nodeSelectorTerms: [{ matchExpressions: [inTerm] }] };
    const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } };
    assert.equal(choiceOf(small, { spec: { affinity } }), "t4g.small");
    assert.equal(
      choiceOf(small, annotations({ "pod.elotl.co/instance-type": "m5.*" })),
      "m5.large",
    );
    assert.equal(
      choiceOf(small, annotations({ "pod.elotl.co/instance-type": "m1.small" })),
      "m1.small",
    );
    const gpu = { limits: { "nvidia.com/gpu": 1 } };
    assert.equal(choiceOf(gpu, selector({ "node.elotl.co/gpu-nvidia-l4": "" })), "g6.xlarge");
    assert.equal(choiceOf(gpu, selector({ "node.elotl.co/gpu-kind": "a10g" })), "g5.xlarge");
    assert.equal(choiceOf({ limits: { "amd.com/gpu": 1 } }), "g4ad.xlarge");
    assert.equal(priceOf(pod({}), "t3.micro")?.choice.type.name, "t3.micro");
  });

  it("takes a spot machine before one on demand, whatever it costs, as kip does", () => {
    const either = annotations({ "pod.elotl.co/launch-type": "spot-or-on-demand" });
    const dear = aws.types.map((type) => ({
      ...type,
      pricePerHour: { ...type.pricePerHour, spot: 100 },
    }));
    const priced = (types: typeof aws.types) =>
      pricePods(pod({}, either), { ...aws, types }, undefined).priced[0];
    const launchTypes = ({ choice, runnerUp }: Exclude<ReturnType<typeof priced>, undefined>) => [
      choice.launchType,
      runnerUp?.launchType,
    ];
    for (const types of [aws.types, dear])
      assert.deepEqual(launchTypes(priced(types) ?? assert.fail()), ["spot", "spot"]);
    const unsold = aws.types.map((type) => ({ ...type, pricePerHour: { "on-demand": 1 } }));
    assert.equal(priced(unsold)?.choice.launchType, "on-demand");
  });

  it("adds what a type that is named costs above its baseline", () => {
    const named = annotations({ "pod.elotl.co/instance-type": "t3.nano" });
    const found = priceOf(pod({ requests: { cpu: "1100m" } }, named));
    assert.equal(found?.choice.pricePerHour.toFixed(4), "0.0552");
  });

  it("takes a small burstable type where the limit is high and the request low", () => {
    const burst = priceOf(pod({ requests: { cpu: "100m" }, limits: { cpu: "2" } }), "");
    assert.deepEqual([burst?.choice.type.name, burst?.choice.pricePerHour], ["t3a.nano", 0.0047]);
  });

  it("says which pod has no machine, and what to do", () => {
    const gpu = errorOf(
      { limits: { "nvidia.com/gpu": 1 } },
      selector({ "node.elotl.co/gpu-t44": "" }),
    );
    assert.equal(gpu.code, "MANIFEST_INVALID");
    assert.match(
      gpu.message,
      /^Cannot price Pod "web" on aws us-east-1: .* GPUs on offer are .*t4 \(up to 4\)/,
    );
    assert.match(gpu.remedy ?? "", /Did you mean t4/);
    const ceiling = annotations({ "pod.elotl.co/max-price-per-hour": "0.02" });
    assert.match(
      errorOf({ limits: { cpu: "500m", memory: "1Gi" } }, ceiling).message,
      /at most \$0\.02 an hour: the cheapest that fits, t3a\.small, costs \$0\.0238$/,
    );
    assert.equal(choiceOf({}, ceiling), "t3a.nano");
  });
});

describe("pricePods() of several", () => {
  const unknown = annotations({ "pod.elotl.co/instance-type": "m5.huge" });
  const misspelt = annotations({ "pod.elotl.co/instance-typ": "m5.large" });

  it("prices those that get a machine, and names all others", () => {
    const all = [...pod({}, unknown), ...pod({}), ...pod({}, misspelt), ...pod({})];
    const prices = pricePods(all, aws, undefined);
    assert.equal(prices.priced.length, 2);
    const { message, remedy = "" } = unpricedError(prices.unpriced) ?? assert.fail();
    assert.equal(message, "Cannot price 2 of the manifest's pods");
    const [first = "", second = "", ...more] = remedy.split("\n");
    assert.match(first, /"m5\.huge": no type of that name/);
    assert.match(
      second,
      /no such annotation \(did you mean .*\)\. Correct the annotations in the manifest$/,
    );
    assert.deepEqual(more, []);
    assert.match(priceText(aws, prices), /^All together, without what cannot be priced: \$/m);
    const json = JSON.parse(JSON.stringify(priceJson(aws, prices)));
    assert.deepEqual([json.pods.length, json.unpriced.length], [2, 2]);
  });
});

describe("priceText() and priceJson()", () => {
  it("say choice, runner-up, prices and why", () => {
    const deployment = {
      kind: "Deployment",
      metadata: { name: "web" },
      spec: {
        replicas: 3,
        template: {
          spec: {
            containers: [{ name: "a", resources: { limits: { cpu: "500m", memory: "1Gi" } } }],
          },
        },
      },
    };
    const prices = pricePods(pricedPods(deployment), aws, undefined);
    const text = priceText(aws, prices);
    for (const part of [
      /^Machines of aws us-east-1 at prices of 2026-07-20/,
      /^Deployment web, 3 pods: each asks for 0.5 CPU, 1Gi memory$/m,
      /choice +t3a\.small \(2 CPU, 1\.7Gi for the pod\), on-demand: \$0\.0238 an hour, \$17\.37 a month$/m,
      /runner-up +t3\.small .*\$0\.0258 an hour/,
      /why +it is the cheapest of \d+ types that fit, of 1364 on offer$/m,
      /\$0\.005 of it an hour are for 0\.1 CPU above its baseline of 0\.4$/m,
      /t4g\.small, on-demand at \$0\.0208, is arm64; the annotation pod\.elotl\.co\/architecture takes it$/m,
      /all pods +\$0\.0714 an hour, \$52\.12 a month$/m,
    ])
      assert.match(text, part);
    const json = JSON.parse(JSON.stringify(priceJson(aws, prices)));
    assert.equal(json.pods[0].choice.instanceType, "t3a.small");
    assert.equal(json.pods[0].runnerUp.instanceType, "t3.small");
    assert.equal(json.total.pricePerMonth.toFixed(2), "52.12");
  });
});
