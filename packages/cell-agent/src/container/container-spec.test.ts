import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DesiredContainer } from "@kip/agent-api";
import type { ImageConfig } from "@kip/oci-image";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { containerSpec, type SpecInput } from "./container-spec.ts";

const image: ImageConfig = {
  entrypoint: ["/entry"],
  cmd: ["serve"],
  env: ["A=image", "B=image"],
  workingDir: "/app",
  user: "",
  volumes: [],
  exposedPorts: [],
  labels: {},
};

function spec(
  overrides: Partial<DesiredContainer>,
  input: Partial<SpecInput> = {},
): ReturnType<typeof containerSpec> {
  return containerSpec({
    id: "1",
    attempt: 0,
    pod: desiredPod(),
    container: container("web", overrides),
    image,
    sandbox: {
      name: "",
      hostname: "of-sandbox",
      ipcNamespace: "",
      utsNamespace: "",
      cgroupParent: "",
    },
    rootfs: "/rootfs",
    imageUser: { uid: 0, gid: 0, additionalGids: [] },
    mounts: [],
    logDirectory: "/log",
    oomScoreAdj: 1000,
    ...input,
  });
}

describe("containerSpec()", () => {
  it("joins command and args with the image's as Kubernetes does", () => {
    assert.deepEqual(spec({}).args, ["/entry", "serve"]);
    assert.deepEqual(spec({ args: ["x"] }).args, ["/entry", "x"]);
    assert.deepEqual(spec({ command: ["/c"] }).args, ["/c"]);
    assert.deepEqual(spec({ command: ["/c"], args: ["x"] }).args, ["/c", "x"]);
    const empty = { image: { ...image, entrypoint: [], cmd: [] } };
    assert.throws(() => spec({}, empty), {
      code: "AGENT_CONTAINER_INVALID",
      message: "no command specified",
    });
  });

  it("takes an entrypoint of one empty text for none, as containerd does", () => {
    const none = { image: { ...image, entrypoint: [""] } };
    assert.deepEqual(spec({}, none).args, ["serve"]);
    assert.deepEqual(spec({ args: ["x"] }, none).args, ["x"]);
    assert.deepEqual(spec({ command: ["/c"] }, none).args, ["/c"]);
    const nothing = { image: { ...image, entrypoint: [""], cmd: [] } };
    assert.throws(() => spec({}, nothing), { message: "no command specified" });
    const two = { image: { ...image, entrypoint: ["", "/entry"] } };
    assert.deepEqual(spec({}, two).args, ["", "/entry", "serve"]);
  });

  it("has the profile of system calls that the pod brings, and is not made without it", () => {
    const pod = desiredPod({
      seccompProfiles: [
        { name: "a.json", json: "{}" },
        { name: "b.json", error: "cannot load it" },
      ],
    });
    const of = (seccompProfile: string): ReturnType<typeof spec>["seccomp"] =>
      spec({ seccomp: "Localhost", seccompProfile }, { pod }).seccomp;
    assert.deepEqual(of("a.json"), { profile: "{}" });
    const code = "AGENT_PROFILE_UNAVAILABLE";
    assert.throws(() => of("b.json"), { code, message: "cannot load it" });
    assert.throws(() => of("c.json"), { code, message: 'cannot load seccomp profile "c.json"' });
    assert.equal(spec({ seccomp: "RuntimeDefault" }, { pod }).seccomp, "RuntimeDefault");
  });

  it("lets the pod's environment win over the image's", () => {
    const { env } = spec({ env: [{ name: "B", value: "pod" }] });
    assert.ok(env.includes("A=image") && env.includes("B=pod") && !env.includes("B=image"));
    assert.ok(env.some((entry) => entry.startsWith("PATH=/usr/local/sbin")));
    assert.ok(env.includes("HOSTNAME=of-sandbox") && env.includes("HOME=/"));
  });

  it("weighs a container by what it asks for, and one that asks for nothing as nothing", () => {
    const weight = (resources: Partial<DesiredContainer>): number | undefined =>
      spec(resources).resources?.cpuMilliRequest;
    assert.equal(weight({ cpuMilliRequest: 100, cpuMilliLimit: 500 }), 100);
    assert.equal(weight({ cpuMilliLimit: 500 }), 500);
    // The kernel's default would be that of a container that requests a whole CPU.
    assert.equal(weight({}), 0);
  });

  it("adds the groups of the pod to those of the image", () => {
    const input = {
      pod: desiredPod({ fsGroup: 2000 }),
      imageUser: { uid: 5, gid: 6, additionalGids: [7] },
    };
    const { user } = spec({ supplementalGroups: [8, 2000] }, input);
    assert.deepEqual(user, { uid: 5, gid: 6, additionalGids: [6, 7, 8, 2000] });
    const wantedUser = { uid: 9, gid: 10, additionalGids: [] };
    assert.equal(spec({ user: 9 }, { wantedUser }).user.gid, 10);
    assert.equal(spec({ user: 9, group: 11 }, { wantedUser }).user.gid, 11);
  });

  it("leaves the groups of the image out where the pod wants that", () => {
    const input = { imageUser: { uid: 5, gid: 6, additionalGids: [7] } };
    const strict = { supplementalGroups: [8], supplementalGroupsPolicy: "Strict" } as const;
    assert.deepEqual(spec(strict, input).user.additionalGids, [6, 8]);
    const merge = { ...strict, supplementalGroupsPolicy: "Merge" } as const;
    assert.deepEqual(spec(merge, input).user.additionalGids, [6, 7, 8]);
  });

  it("CVE-2022-2989: has a process's first group among its others, however it was chosen", () => {
    const input = { imageUser: { uid: 5, gid: 6, additionalGids: [7] } };
    assert.deepEqual(spec({}, input).user.additionalGids, [6, 7]);
    assert.deepEqual(spec({ group: 11 }, input).user.additionalGids, [7, 11]);
    assert.deepEqual(spec({ group: 7 }, input).user.additionalGids, [7]);
    const strict = { group: 11, supplementalGroupsPolicy: "Strict" } as const;
    assert.deepEqual(spec(strict, input).user.additionalGids, [11]);
  });

  it("refuses root where the pod forbids it, in the kubelet's words", () => {
    const where = '(pod: "pod_default(uid-1)", container: web)';
    const check = (overrides: Partial<DesiredContainer>, user: string, message: string): void =>
      assert.throws(
        () => spec({ runAsNonRoot: true, ...overrides }, { image: { ...image, user } }),
        { code: "AGENT_CONTAINER_CONFIG", message: `${message} ${where}` },
      );
    check({}, "", "container has runAsNonRoot and image will run as root");
    check({ user: 0 }, "", "container's runAsUser breaks non-root policy");
    check(
      {},
      "www",
      "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root",
    );
    assert.equal(spec({ runAsNonRoot: true, user: 5 }).user.uid, 5);
  });

  it("maps stdin to what the container's first process sees", () => {
    assert.equal(spec({}).stdin, "closed");
    assert.equal(spec({ stdin: true }).stdin, "open");
    assert.equal(spec({ stdin: true, stdinOnce: true }).stdin, "once");
  });
});
