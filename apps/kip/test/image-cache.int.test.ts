// "kip image-cache" with a real API server, the account of deploy/image-cache, and registries on loopback.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { parseOptions, silentLogger, systemClock } from "@kip/base";
import {
  endSharedControlPlane,
  sharedControlPlane,
  tokenKubeconfig,
  type SharedControlPlane,
} from "@kip/control-plane/testing";
import { openImageStore, parseReference } from "@kip/oci-image";
import {
  eventually,
  freePort,
  startLayoutRegistry,
  tar,
  temporaryFolder,
  writeLayout,
  type LayoutRegistry,
  type RequestHandler,
} from "@kip/testing";
import { parseAllDocuments } from "yaml";
import { imageCacheOptions } from "../src/image-cache/image-cache-options.ts";

const manifests = path.join(import.meta.dirname, "../../../deploy/image-cache");
const main = path.join(import.meta.dirname, "../src/main.ts");
const folder = temporaryFolder();
const directory = path.join(folder.path, "plane");
const cache = path.join(folder.path, "cache");
const blobs = path.join(cache, "blobs/sha256");
const node = "cells";
const ordinaryNode = "ordinary";

/** The fields of a Deployment that these tests read. */
interface Manifest {
  readonly kind: string;
  readonly spec: {
    readonly template: {
      readonly spec: { readonly containers: readonly { readonly args: readonly string[] }[] };
    };
  };
}

/** A registry with one image, which a test may change. It can hold back the end of a response. */
interface ChangingRegistry {
  readonly registry: LayoutRegistry;
  readonly layout: string;
  /** Replaces the image. Returns the digests of its parts. */
  write(content: string): { readonly root: string; readonly blobs: readonly string[] };
  stall: boolean;
}

async function startChangingRegistry(
  name: string,
  guard?: RequestHandler,
): Promise<ChangingRegistry> {
  const layout = path.join(folder.path, name);
  const write: ChangingRegistry["write"] = (content) => {
    const before = new Set(blobsOf(layout));
    const { digest } = writeLayout(layout, {
      layers: [tar([{ name: "content", content: content.repeat(100_000) }])],
      compression: "none",
    });
    return { root: digest, blobs: blobsOf(layout).filter((hex) => !before.has(hex)) };
  };
  const place = { layout, write, stall: false };
  const handler: RequestHandler = (request, response) => {
    if (guard?.(request, response) === true) return true;
    if (request.url?.includes("/manifests/") === true)
      response.setHeader("docker-content-digest", rootOf(layout, request.url));
    return place.stall && sendHalf(layout, request, response);
  };
  const registry = await startLayoutRegistry(layout, handler);
  return Object.assign(place, { registry });
}

function blobsOf(layout: string): readonly string[] {
  try {
    return readdirSync(path.join(layout, "blobs/sha256"));
  } catch {
    return [];
  }
}

function rootOf(layout: string, url: string): string {
  const asked = /sha256:[0-9a-f]{64}$/.exec(url)?.[0];
  const index = JSON.parse(readFileSync(path.join(layout, "index.json"), "utf8")) as {
    readonly manifests: readonly { readonly digest: string }[];
  }; // our own format
  return asked ?? index.manifests[0]?.digest ?? "";
}

/** Sends the first half of a large blob. The connection stays open. */
function sendHalf(
  layout: string,
  { url = "" }: IncomingMessage,
  response: ServerResponse,
): boolean {
  const hex = /\/blobs\/sha256:([0-9a-f]{64})$/.exec(url)?.[1];
  const bytes =
    hex === undefined ? undefined : readFileSync(path.join(layout, "blobs/sha256", hex));
  if (!bytes || bytes.length < 50_000) return false;
  response.writeHead(200, { "content-length": bytes.length });
  response.write(bytes.subarray(0, bytes.length / 2));
  return true;
}

describe("kip image-cache", { timeout: 400_000 }, () => {
  let plane: SharedControlPlane;
  let namespace: string;
  let kubeconfig: string;
  let app: ChangingRegistry;
  let listed: ChangingRegistry;
  let secured: ChangingRegistry;
  const stack = new AsyncDisposableStack();

  before(
    async () => {
      plane = stack.use(await sharedControlPlane({ directory }));
      // A cluster of its own, because the role has a fixed name.
      await plane.kubectl(["apply", "-k", path.join(manifests, "base")]);
      await plane.kubectl([
        "scale",
        "deployment/kip-image-cache",
        "-n",
        "kip-system",
        "--replicas=0",
      ]);
      const token = await plane.kubectl(["create", "token", "kip-image-cache", "-n", "kip-system"]);
      kubeconfig = path.join(folder.path, "kubeconfig");
      writeFileSync(kubeconfig, tokenKubeconfig(plane, token.trim()));
      namespace = await plane.createNamespace("cache");
      // Without these nodes, Kubernetes would delete their pods within a minute.
      const nodes = [node, ordinaryNode].map((name) => ({
        apiVersion: "v1",
        kind: "Node",
        metadata: { name },
      }));
      const input = JSON.stringify({ apiVersion: "v1", kind: "List", items: nodes });
      await plane.kubectl(["create", "-f", "-"], { input });
      mkdirSync(cache);
      app = await startChangingRegistry("app");
      listed = await startChangingRegistry("listed");
      secured = await startChangingRegistry("secured", refuseStrangers);
      for (const each of [app, listed, secured]) stack.use(each.registry);
      writeConfig([app, listed, secured]);
    },
    { timeout: 900_000 },
  );

  after(async () => {
    await stack.disposeAsync();
    await endSharedControlPlane(directory);
    folder.remove();
  });

  /**
   * Writes the configuration file of the manifests with registries. Plain HTTP is only allowed for registries that it names.
   */
  function writeConfig(registries: readonly ChangingRegistry[]): void {
    const shipped = readFileSync(path.join(manifests, "base/provider.yaml"), "utf8");
    const hosts = registries.map(({ registry }) => ({ host: registry.host, insecure: true }));
    const text = `${shipped}\nregistries: ${JSON.stringify(hosts)}\n`;
    writeFileSync(path.join(folder.path, "provider.yaml"), text);
  }

  const names = (): readonly string[] => blobsOf(cache).filter((name) => !name.startsWith("."));
  const hasAll = (wanted: readonly string[]): boolean =>
    wanted.every((hex) => names().includes(hex));
  const hasNone = (wanted: readonly string[]): boolean =>
    !wanted.some((hex) => names().includes(hex));

  /** Runs the command until the block ends. */
  async function start(...args: readonly string[]): Promise<
    AsyncDisposable & {
      readonly child: ChildProcess;
      log(): string;
      metric(line: string): Promise<number>;
      untilReady(): Promise<void>;
    }
  > {
    const [metricsPort, healthPort] = [await freePort(), await freePort()];
    const flags = [
      `--cache=${cache}`,
      `--kubeconfig=${kubeconfig}`,
      `--provider-config=${folder.path}/provider.yaml`,
      `--node=${node}`,
      "--refresh=1s",
      "--collect=1s",
      `--metrics-addr=127.0.0.1:${metricsPort}`,
      `--health-addr=127.0.0.1:${healthPort}`,
    ];
    const child = spawn(process.execPath, [main, "image-cache", ...flags, ...args], {
      stdio: ["ignore", "inherit", "pipe"],
    });
    let log = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (log += text));
    const exited = once(child, "exit");
    return {
      child,
      log: () => log,
      metric: async (name) => {
        const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
        const line = text.split("\n").find((each) => each.startsWith(`${name} `));
        return line === undefined ? Number.NaN : Number(line.split(" ").at(-1));
      },
      untilReady: async () => {
        const ready = async () =>
          (await fetch(`http://127.0.0.1:${healthPort}/readyz`).catch(() => undefined))?.ok ===
          true;
        await eventually(ready, { what: "image-cache is ready" });
      },
      [Symbol.asyncDispose]: async () => {
        if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
        const [code] = (await exited) as [number | null];
        if (child.signalCode === null) assert.equal(code, 0, log);
      },
    };
  }

  /** Creates a pod that is bound to a node. No kubelet runs it. */
  async function createPod(name: string, image: string, spec: object = {}): Promise<void> {
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name },
      spec: {
        nodeName: node,
        tolerations: [{ operator: "Exists" }],
        containers: [{ name: "main", image }],
        ...spec,
      },
    };
    const file = path.join(folder.path, `${name}.json`);
    writeFileSync(file, JSON.stringify(pod));
    await plane.kubectl(["create", "-n", namespace, "-f", file]);
  }

  const deletePod = async (name: string): Promise<void> =>
    void (await plane.kubectl([
      "delete",
      "pod",
      name,
      "-n",
      namespace,
      "--grace-period=0",
      "--force",
    ]));

  async function patchStatus(name: string, status: object): Promise<void> {
    const patch = ["--subresource=status", "--type=merge", "-p", JSON.stringify({ status })];
    await plane.kubectl(["patch", "pod", name, "-n", namespace, ...patch]);
  }

  it("has manifests that an API server takes, with flags that there are, and rights to pods alone", async () => {
    const [nfs, efs] = [path.join(manifests, "overlays/nfs"), path.join(manifests, "overlays/efs")];
    const component = path.join(manifests, "components/pull-secrets");
    for (const place of [nfs, efs])
      assert.match(await plane.kubectl(["apply", "-k", place, "--dry-run=server"]), /deployment/);
    // Kustomize does not accept absolute paths.
    const own = path.join(folder.path, "with-secrets");
    mkdirSync(own);
    const relative = (place: string): string => path.relative(own, place);
    const kustomization = { resources: [relative(nfs)], components: [relative(component)] };
    writeFileSync(path.join(own, "kustomization.yaml"), JSON.stringify(kustomization));
    const objects = parseAllDocuments(await plane.kubectl(["kustomize", own])).map(
      (document) => document.toJS() as Manifest, // our own file
    );
    const [deployment] = objects.filter(({ kind }) => kind === "Deployment");
    const [command, ...flags] = deployment?.spec.template.spec.containers[0]?.args ?? [];
    assert.equal(command, "image-cache");
    const options = parseOptions(imageCacheOptions, flags, {});
    assert.ok(options.isSet("pull-secrets") && options.isSet("private"));
    const account = `--as=system:serviceaccount:kip-system:kip-image-cache`;
    const may = async (...what: readonly string[]): Promise<string> =>
      (await plane.kubectl(["auth", "can-i", ...what, account, "-A"]).catch(() => "no")).trim();
    for (const verb of ["list", "watch"]) assert.equal(await may(verb, "pods"), "yes", verb);
    for (const verb of ["get", "create", "delete", "patch"])
      assert.equal(await may(verb, "pods"), "no");
    for (const kind of ["secrets", "configmaps", "nodes"])
      assert.equal(await may("list", kind), "no");
  });

  it("fills the folder, follows a moved tag, and removes what no pod and no list names", async () => {
    const first = app.write("one");
    const others = listed.write("other");
    const list = path.join(folder.path, "images.txt");
    writeFileSync(list, `# always there\n${listed.registry.host}/base:1\n`);
    await using keeper = await start(`--list=${list}`, "--unused-for=3s");
    await keeper.untilReady();
    await eventually(() => hasAll(others.blobs), { what: "the listed image is in the cache" });
    assert.ok(hasNone(first.blobs));
    await createPod("web", `${app.registry.host}/web:1`);
    // Pods of other nodes do not pull from the folder.
    await createPod("elsewhere", `${app.registry.host}/unknown:1`, { nodeName: ordinaryNode });
    await eventually(() => hasAll(first.blobs), { what: "the pod's image is in the cache" });
    assert.equal(await keeper.metric('kip_image_cache_images{state="current"}'), 2);
    // Once the image is cached, the registry only gets requests for headers.
    app.registry.requests.length = 0;
    await eventually(() => app.registry.requests.length >= 3);
    assert.deepEqual(new Set(app.registry.requests), new Set(["HEAD /v2/web/manifests/1 -"]));

    const imageID = `${app.registry.host}/web@${first.root}`;
    await patchStatus("web", {
      phase: "Running",
      containerStatuses: [
        {
          name: "main",
          image: "web:1",
          imageID,
          ready: true,
          restartCount: 0,
          state: { running: {} },
        },
      ],
    });
    const second = app.write("two");
    await eventually(() => hasAll(second.blobs), {
      what: "what the tag means now is in the cache",
    });
    // Wait for longer than the unused limit. The old container still uses the old image.
    const looks = async (): Promise<number> =>
      await keeper.metric("kip_image_cache_last_collection_timestamp_seconds");
    const until = Date.now() / 1000 + 4;
    await eventually(async () => (await looks()) > until, {
      what: "it was looked for what is unused",
    });
    assert.ok(hasAll([...first.blobs, ...second.blobs, ...others.blobs]));
    // A cell only asks the registry which image the tag names.
    app.registry.requests.length = 0;
    assert.deepEqual(await pullLikeACell(app, "web:1", "two"), ["GET /v2/web/manifests/1"]);

    await deletePod("web");
    await eventually(() => hasNone([...first.blobs, ...second.blobs]), {
      what: "both have lost their names",
    });
    assert.ok(hasAll(others.blobs), "the list keeps its image");
    const leaving = await keeper.metric('kip_image_cache_blobs{state="leaving"}');
    assert.equal(leaving, first.blobs.length + second.blobs.length);
    // Their bytes are kept for cells that are reading them.
    assert.equal(blobsOf(cache).filter((name) => name.includes(".unused-")).length, leaving);
    // Changes of the list take effect.
    writeFileSync(list, "Not a name\n");
    await eventually(() => hasNone(others.blobs), { what: "the listed image has lost its name" });
    assert.match(keeper.log(), /Some lines of the list are not names of images/);
    await deletePod("elsewhere");
  });

  it("is killed in the middle: cells never see half a blob, and the next one goes on", async () => {
    const image = app.write("killed");
    app.stall = true;
    await createPod("cut", `${app.registry.host}/cut:1`);
    {
      await using keeper = await start("--unused-for=off");
      const drafts = () => blobsOf(cache).filter((name) => name.includes(".draft-"));
      const hasBegun = () =>
        drafts().some((name) => readFileSync(path.join(blobs, name)).length > 0);
      await eventually(hasBegun, { what: "a blob is half written" });
      keeper.child.kill("SIGKILL");
    }
    app.stall = false;
    const left = blobsOf(cache).filter((name) =>
      image.blobs.some((hex) => name.startsWith(`.${hex}`)),
    );
    assert.ok(
      left.some((name) => name.includes(".draft-")),
      "the kill left its draft",
    );
    assert.ok(
      left.some((name) => name.endsWith(".claim")),
      "and its claim",
    );
    assert.ok(!hasAll(image.blobs));
    app.registry.requests.length = 0;
    const asked = await pullLikeACell(app, "cut:1", "killed");
    assert.ok(
      asked.some((request) => request.includes("/blobs/")),
      "the rest came from the registry",
    );
    await using _next = await start("--unused-for=off");
    // The claim of the killed process stays valid for half a minute.
    await eventually(() => hasAll(image.blobs), { limitMs: 120_000, what: "the image is whole" });
    const hidden = blobsOf(cache).filter((name) => /\.(?:draft|claim)/.test(name));
    await eventually(() => hidden.every((name) => !blobsOf(cache).includes(name)));
    assert.deepEqual(await pullLikeACell(app, "cut:1", "killed"), ["GET /v2/cut/manifests/1"]);
    await deletePod("cut");
  });

  it("takes private images by the pods' pull secrets, where the flags and its rights allow it", async () => {
    secured.write("private");
    const auths = { [secured.registry.host]: { username: "tenant", password: "s3cret" } };
    await plane.kubectl([
      "create",
      "secret",
      "generic",
      "login",
      "-n",
      namespace,
      "--type=kubernetes.io/dockerconfigjson",
      `--from-literal=.dockerconfigjson=${JSON.stringify({ auths })}`,
    ]);
    await createPod("secret", `${secured.registry.host}/team/app:1`, {
      imagePullSecrets: [{ name: "login" }],
    });
    {
      await using keeper = await start("--private", "--pull-secrets", "--unused-for=off");
      await keeper.untilReady();
      await eventually(
        async () => (await keeper.metric('kip_image_cache_images{state="failing"}')) === 1,
      );
      assert.match(keeper.log(), /Could not read an image pull secret.*K8S_FORBIDDEN/);
      assert.doesNotMatch(keeper.log(), /s3cret/);
    }
    // The permissions that the component pull-secrets adds.
    const rule = { apiGroups: [""], resources: ["secrets"], verbs: ["get"] };
    const patch = JSON.stringify([{ op: "add", path: "/rules/-", value: rule }]);
    await plane.kubectl(["patch", "clusterrole", "kip-image-cache", "--type=json", "-p", patch]);
    {
      await using keeper = await start("--pull-secrets", "--unused-for=off");
      await keeper.untilReady();
      await eventually(
        async () => (await keeper.metric('kip_image_cache_images{state="failing"}')) === 1,
      );
      assert.match(keeper.log(), /IMAGE_PRIVATE/);
      assert.ok(!readdirSync(cache).includes("private"));
    }
    await using keeper = await start("--private", "--pull-secrets", "--unused-for=off");
    await keeper.untilReady();
    await eventually(
      async () => (await keeper.metric('kip_image_cache_images{state="current"}')) === 1,
    );
    const [key = "", ...more] = readdirSync(path.join(cache, "private"));
    assert.deepEqual(more, []);
    assert.equal(blobsOf(path.join(cache, "private", key)).length, 3);
    await deletePod("secret");
  });

  /** Pulls into an empty store, like an agent does. @returns the requests that the registry got */
  async function pullLikeACell(
    { registry }: ChangingRegistry,
    name: string,
    content: string,
  ): Promise<readonly string[]> {
    const root = path.join(folder.path, `store-${Math.random()}`);
    const store = await openImageStore({ root, logger: silentLogger, clock: systemClock });
    const { host, endpoint } = registry;
    const before = registry.requests.length;
    const reference = parseReference(`${host}/${name}`);
    const image = await store.pull(reference, { registries: [{ host, endpoint }], cache });
    const text = readFileSync(path.join(image.layers[0] ?? "", "content"), "utf8");
    assert.equal(text, content.repeat(100_000));
    const asked = registry.requests
      .slice(before)
      .map((line) => line.split(" ").slice(0, 2).join(" "));
    return asked.filter((line) => !line.startsWith("HEAD"));
  }
});

function refuseStrangers({ headers }: IncomingMessage, response: ServerResponse): boolean {
  const known = `Basic ${Buffer.from("tenant:s3cret").toString("base64")}`;
  if (headers.authorization === known) return false;
  response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end();
  return true;
}
