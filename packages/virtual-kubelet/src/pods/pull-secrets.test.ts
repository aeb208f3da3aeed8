import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type CodedError } from "@kip/base";
import { K8sError } from "@kip/k8s-client";
import { podWith } from "@kip/k8s-types/testing";
import { VirtualKubeletError } from "../errors.ts";
import type { ReferenceReader } from "../references/reference.ts";
import { fakeReferences } from "../testing/fake-references.ts";
import { pullSecrets } from "./pull-secrets.ts";

const pod = podWith({
  spec: { containers: [], imagePullSecrets: [{ name: "good" }, { name: "bad" }] },
});
const good = { ".dockerconfigjson": '{"auths":{}}' };

async function read(bad: CodedError) {
  const events: string[] = [];
  const references = fakeReferences({ "Secret/good": good, "Secret/bad": bad });
  const documents = await pullSecrets(pod, references, ({ reason }) => void events.push(reason));
  return { documents, events };
}

describe("pullSecrets()", () => {
  it("skips Secrets that it must not read", async () => {
    const { documents, events } = await read(new K8sError("K8S_FORBIDDEN", "not yours"));
    assert.deepEqual(documents, [{ auths: {} }]);
    assert.deepEqual(events, ["FailedToRetrieveImagePullSecret"]);
  });

  it("waits while the API server does not answer, and reports no missing Secret", async () => {
    const away = new K8sError("K8S_UNAVAILABLE", "overloaded", { retryable: true });
    await assert.rejects(read(away), (error) => VirtualKubeletError.is(error, "VK_UNRESOLVED"));
  });

  it("reads a Secret once, however often a pod names it", async () => {
    let reads = 0;
    const objects = fakeReferences({ "Secret/good": good });
    const references: ReferenceReader = {
      read: async (reference) => {
        reads++;
        return objects.read(reference);
      },
    };
    const imagePullSecrets = Array.from({ length: 1000 }, () => ({ name: "good" }));
    const documents = await pullSecrets(
      podWith({ spec: { imagePullSecrets } }),
      references,
      () => {},
    );
    assert.deepEqual([documents, reads], [[{ auths: {} }], 1]);
  });
});
