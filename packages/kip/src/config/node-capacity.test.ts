import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkProviderConfig } from "./provider-config.ts";

const problemsOf = (kubelet: object, cells: object = {}): readonly string[] =>
  checkProviderConfig({ cloud: { local: {} }, cells, kubelet }).problems.map(({ path }) =>
    path.join(" "),
  );

describe("capacity of the node in provider.yaml", () => {
  it("takes resources that pods can ask for", () => {
    const counted = { pods: "1k", "nvidia.com/gpu": 2, "example.com/card": "3" };
    const others = { cpu: "1500m", memory: "1.5Gi", "ephemeral-storage": "1G", "hugepages-1Gi": 0 };
    assert.deepEqual(problemsOf({ pods: 1000, capacity: { ...counted, ...others } }), []);
  });

  it("refuses names that no pod can ask for", () => {
    const wrong = [
      "cpus",
      "gpu",
      "",
      "my gpu/x",
      "a/b/c",
      "/x",
      "x/",
      "kubernetes.io/x",
      "hugepages-",
    ];
    for (const name of wrong)
      assert.deepEqual(problemsOf({ capacity: { [name]: 1 } }), [`kubelet capacity ${name}`]);
  });

  it("refuses the same of instance types, which the node offers too", () => {
    const ofTypes = (resources: object): readonly string[] =>
      problemsOf({}, { extendedResources: { "a.*": resources } }).map((path) =>
        path.replace("cells extendedResources a.* ", ""),
      );
    assert.deepEqual(ofTypes({ "example.com/card": 2, "example.com/nic": "1k" }), []);
    const wrong = { "example.com/card": "500m", "example.com/nic": 1.5, "my gpu/x": 1, "a/b/c": 1 };
    assert.deepEqual(ofTypes(wrong), Object.keys(wrong));
  });

  it("refuses parts of what is counted", () => {
    const capacity = { pods: "1.5", "nvidia.com/gpu": "500m" };
    const found = problemsOf({ pods: 1.5, capacity });
    assert.deepEqual(found, [
      "kubelet pods",
      "kubelet capacity pods",
      "kubelet capacity nvidia.com/gpu",
    ]);
  });
});
