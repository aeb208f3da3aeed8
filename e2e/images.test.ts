import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import type { RawEntry } from "@kip/testing";
import { cluster, eventually, stateDir, type Cluster } from "./cluster.ts";
import {
  account,
  busyboxEntries,
  mirroredHost,
  programEntries,
  registryHost,
  startImageRegistry,
  type ImageRegistry,
} from "./image-registry.ts";

/** The extended attribute of a file with the capability to listen at ports below 1024 (capability 10), in Linux' format. */
const netBindService = Buffer.alloc(20);
netBindService.writeUInt32LE(0x02_00_00_01, 0);
netBindService.writeUInt32LE(1 << 10, 4);

const getcap = "/usr/sbin/getcap";
const getfattr = "/usr/bin/getfattr";
const programs = ["/usr/bin/id", getcap, getfattr].filter((file) => existsSync(file));

function attributeEntries(): readonly RawEntry[] {
  const all = [...busyboxEntries(), ...programEntries(programs)];
  const contentOf = (name: string): string | Buffer =>
    all.find((entry) => entry.name === name)?.content ?? "";
  const pax = (name: string, value: Buffer | string) => ({
    [`SCHILY.xattr.${name}`]: value.toString("latin1"),
  });
  return [
    ...all,
    {
      name: "bin/busybox-capable",
      mode: 0o755,
      content: contentOf("bin/busybox"),
      pax: pax("security.capability", netBindService),
    },
    { name: "bin/setuid-id", mode: 0o4755, content: contentOf("usr/bin/id") },
    { name: "etc/", type: "5" },
    { name: "etc/tagged", mode: 0o640, uid: 7, gid: 8, pax: pax("user.kip", "yes") },
    { name: "etc/pipe", type: "6", mode: 0o600 },
    { name: "etc/disk", type: "4", mode: 0o600, major: 8, minor: 0 },
    {
      name: "etc/sparse",
      content: Buffer.alloc(0),
      pax: {
        "GNU.sparse.name": "etc/sparse",
        "GNU.sparse.size": "50000000",
        "GNU.sparse.numblocks": "1",
        "GNU.sparse.map": "50000000,0",
      },
    },
  ];
}

describe("images", () => {
  let kube: Cluster;
  let registry: ImageRegistry;
  before(async () => {
    kube = await cluster("images");
    registry = await startImageRegistry(stateDir, {
      "open/app": { entries: busyboxEntries() },
      "open/attributes": { entries: attributeEntries() },
      "basic/app": { entries: busyboxEntries() },
      "token/app": { entries: busyboxEntries() },
    });
    const auth = { auth: Buffer.from(Object.values(account).join(":")).toString("base64") };
    const wrong = { username: account.username, password: "falsch" };
    await kube.apply(
      // The entry for the longer path is tried first and refused. Cells then try the next one, like the kubelet.
      pullSecret("known", { [registryHost]: auth, [`${registryHost}/basic`]: wrong }),
      pullSecret("unknown", { [registryHost]: wrong }),
    );
  });
  after(async () => {
    await registry[Symbol.asyncDispose]();
  });

  function pullSecret(name: string, auths: object): object {
    return {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name },
      type: "kubernetes.io/dockerconfigjson",
      stringData: { ".dockerconfigjson": JSON.stringify({ auths }) },
    };
  }

  function pod(
    name: string,
    secret: string,
    images: Readonly<Record<string, string>>,
    securityContexts: Readonly<Record<string, object>> = {},
  ): object {
    const containers = Object.entries(images).map(([container, image]) => ({
      name: container,
      image,
      command: ["/bin/busybox", "sleep", "100000"],
      securityContext: securityContexts[container] ?? {},
    }));
    const imagePullSecrets = [{ name: secret }];
    const spec = { terminationGracePeriodSeconds: 0, imagePullSecrets, containers };
    return { apiVersion: "v1", kind: "Pod", metadata: { name }, spec };
  }

  it("come from a mirror with a private CA, and with a pod's passwords and tokens", async () => {
    await kube.apply(
      pod("sources", "known", {
        mirrored: `${mirroredHost}/open/app:1`,
        basic: `${registryHost}/basic/app:1`,
        token: `${registryHost}/token/app:1`,
      }),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/sources", "--timeout=240s");
    const served = registry.served.join("\n");
    assert.match(served, /GET \/v2\/open\/app\/blobs\/\S+ -$/m);
    assert.match(served, /GET \/v2\/basic\/app\/blobs\/\S+ Basic$/m);
    assert.match(served, /GET \/v2\/token\/app\/blobs\/\S+ Bearer$/m);
    const told = await kube.ok("get", "events", "--field-selector=reason=Pulled", "-o", "wide");
    assert.match(
      told,
      new RegExp(
        `Successfully pulled image "${mirroredHost}/open/app:1" in \\S+ \\(\\S+ including waiting\\)\\. Image size: \\d+ bytes\\.`,
      ),
    );
    await kube.ok("delete", "pod", "sources", "--wait=false");
  });

  it("are refused with wrong credentials, named wrongly or absent, and the pod says so as with a kubelet", async () => {
    const refused = pod("refused", "unknown", {
      basic: `${registryHost}/basic/app:1`,
      absent: `${registryHost}/open/nothing:1`,
      wrong: "Not/An/Image",
    });
    await kube.apply(refused);
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "never" },
      spec: {
        terminationGracePeriodSeconds: 0,
        containers: [{ name: "main", image: "kip.local/demo:2", imagePullPolicy: "Never" }],
      },
    });
    const reasons = async (name: string): Promise<string> =>
      await kube.ok(
        "get",
        "pod",
        name,
        "-o",
        "jsonpath={range .status.containerStatuses[*]}{.state.waiting.reason} {end}",
      );
    await eventually(
      "the reasons",
      async () =>
        (await reasons("refused")) === "ImagePullBackOff ImagePullBackOff InvalidImageName ",
      240_000,
    );
    await eventually(
      "never",
      async () => (await reasons("never")) === "ErrImageNeverPull ",
      240_000,
    );
    const events = await kube.ok("get", "events", "-o", "custom-columns=R:.reason,M:.message");
    for (const line of [
      /^Failed +Failed to pull image "[\d.:]+\/basic\/app:1": .*refuses/m,
      /^Failed +Failed to pull image "[\d.:]+\/open\/nothing:1": .*has no "open\/nothing:1"/m,
      /^Failed +Error: ErrImagePull$/m,
      /^BackOff +Back-off pulling image "[\d.:]+\/basic\/app:1"$/m,
      /^Failed +Error: ImagePullBackOff$/m,
      /^InspectFailed +Failed to apply default image tag "Not\/An\/Image": couldn't parse image name/m,
      /^ErrImageNeverPull +Container image "kip\.local\/demo:2" is not present with pull policy of Never$/m,
    ])
      assert.match(events, line);
    await kube.ok("delete", "pod", "refused", "never", "--wait=false");
  });

  it("keep capabilities, setuid, owners, attributes, FIFOs and holes in a cell", async () => {
    const image = `${mirroredHost}/open/attributes:1`;
    const users = { user: { runAsUser: 1000, runAsGroup: 1000 } };
    await kube.apply(pod("attributes", "known", { main: image, user: image }, users));
    await kube.ok("wait", "--for=condition=Ready", "pod/attributes", "--timeout=240s");
    const run = async (container: string, command: readonly string[]): Promise<string> =>
      (await kube.ok("exec", "attributes", "-c", container, "--", ...command)).trim();
    const inPod = async (...command: readonly string[]) => await run("main", command);
    // As a user without privileges: only the files' modes count.
    const asUser = async (...command: readonly string[]) => await run("user", command);
    assert.match(
      await asUser("/bin/busybox-capable", "grep", "CapEff", "/proc/self/status"),
      /0000000000000400$/,
    );
    assert.match(await asUser("grep", "CapEff", "/proc/self/status"), /0{16}$/);
    assert.match(await asUser("/bin/setuid-id"), /^uid=1000.* euid=0/);
    assert.equal(
      await inPod("stat", "-c", "%a %u %g %F", "/etc/tagged"),
      "640 7 8 regular empty file",
    );
    assert.equal(await inPod("stat", "-c", "%a %F", "/etc/pipe"), "600 fifo");
    const [size, blocks] = (await inPod("stat", "-c", "%s %b", "/etc/sparse")).split(" ");
    assert.ok(size === "50000000" && Number(blocks) < 100, `${size} bytes in ${blocks} blocks`);
    // A container's devices come from the runtime, not from the image.
    assert.notEqual(
      (await kube.kubectl("exec", "attributes", "-c", "main", "--", "test", "-e", "/etc/disk"))
        .status,
      0,
    );
    if (programs.includes(getcap))
      assert.match(await inPod(getcap, "/bin/busybox-capable"), /cap_net_bind_service[=+]ep/);
    if (programs.includes(getfattr))
      assert.equal(await inPod(getfattr, "--only-values", "-n", "user.kip", "/etc/tagged"), "yes");
    await kube.ok("delete", "pod", "attributes", "--wait=false");
  });
});
