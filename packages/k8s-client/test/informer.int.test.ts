import assert from "node:assert/strict";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import {
  createApiClient,
  createInformer,
  loadKubeConfig,
  paths,
  requestToken,
  type ApiClient,
  type InformerEvent,
  type KubeConfig,
} from "@kip/k8s-client";
import type { ConfigMap } from "@kip/k8s-types";

let plane: SharedControlPlane;
let config: KubeConfig;
let admin: ApiClient;

before(
  async () => {
    plane = await sharedControlPlane();
    config = await loadKubeConfig({ path: plane.kubeconfigPath });
    admin = clientOf(config);
  },
  { timeout: 900_000 },
);

after(async () => {
  admin?.close();
  await plane?.[Symbol.asyncDispose]();
});

function clientOf(target: KubeConfig): ApiClient {
  const options = { userAgent: "test/1", logger: silentLogger, clock: systemClock };
  return createApiClient(target, options);
}

/** A connection to the API server that can be cut. */
async function wire(): Promise<{ config: KubeConfig; cut: () => void } & AsyncDisposable> {
  const target = new URL(config.server);
  const sockets = new Set<Socket>();
  const server = createServer((inner) => {
    const outer = connect(Number(target.port), target.hostname);
    for (const socket of [inner, outer]) {
      sockets.add(socket);
      socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    }
    inner.pipe(outer).pipe(inner);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a TCP server's
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    config: { ...config, server: `https://127.0.0.1:${port}` },
    cut,
    [Symbol.asyncDispose]: async () => {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** An informer whose events can be waited for. */
function informerWith(client: ApiClient, path: string, isMetadataOnly = false) {
  const stop = new AbortController();
  const events: string[] = [];
  let look = (): void => {};
  const informer = createInformer<ConfigMap>({
    client,
    path,
    isMetadataOnly,
    pageSize: 2,
    onEvent: ({ type, object }: InformerEvent<ConfigMap>) => {
      if (object.metadata?.name === "kube-root-ca.crt") return;
      events.push(`${type} ${object.metadata?.name}`);
      look();
    },
    logger: silentLogger,
    clock: systemClock,
    signal: stop.signal,
  });
  const seen = async (event: string): Promise<void> => {
    if (events.includes(event)) return;
    await new Promise<void>((resolve) => {
      look = () => {
        if (events.includes(event)) resolve();
      };
    });
  };
  return { informer, events, seen, [Symbol.dispose]: () => stop.abort() };
}

const named = (name: string, value = "1") => ({ metadata: { name }, data: { value } });

describe("createInformer() on the real API server", { timeout: 120_000 }, () => {
  it("lists in pages and follows changes, by UID", async () => {
    const namespace = await plane.createNamespace();
    const path = paths.configMaps(namespace);
    for (const name of ["a", "b", "c", "d", "e"]) await admin.create(path, named(name));
    using watched = informerWith(admin, path);
    await watched.informer.synced;
    assert.equal(watched.informer.size, 6, "five and the cluster's CA");
    await admin.patch(paths.configMaps(namespace, "a"), { data: { value: "2" } }, "merge");
    await watched.seen("updated a");
    assert.equal(watched.informer.get(namespace, "a")?.data?.["value"], "2");
    assert.equal(watched.informer.get(namespace, "a")?.metadata?.managedFields, undefined);
    await admin.delete(paths.configMaps(namespace, "b"));
    await admin.create(path, named("b", "new"));
    await watched.seen("deleted b");
    await admin.create(path, named("f"));
    await watched.seen("added f");
    assert.equal(watched.informer.get(namespace, "b")?.data?.["value"], "new");
  });

  it("misses nothing when its connection is cut, deletions included", async () => {
    const namespace = await plane.createNamespace();
    const path = paths.configMaps(namespace);
    await admin.create(path, named("old"));
    await using line = await wire();
    const client = clientOf(line.config);
    using watched = informerWith(client, path);
    await watched.informer.synced;
    line.cut();
    await admin.delete(paths.configMaps(namespace, "old"));
    await admin.create(path, named("old", "again"));
    await admin.create(path, named("fresh"));
    await watched.seen("added fresh");
    await watched.seen("deleted old");
    assert.equal(watched.informer.get(namespace, "old")?.data?.["value"], "again");
    client.close();
  });

  it("lists again when the server says that the version is gone", async () => {
    const namespace = await plane.createNamespace();
    const path = paths.configMaps(namespace);
    await admin.create(path, named("old"));
    let isFirst = true;
    let lists = 0;
    // A new server has not compacted anything yet, so the test returns its refusal instead.
    const status = { kind: "Status", code: 410, reason: "Expired", message: "too old" };
    const refusal = `${JSON.stringify({ type: "ERROR", object: status })}\n`;
    const client: ApiClient = {
      ...boundClient(admin),
      list: (target, options) => {
        if (options?.query?.["continue"] === undefined) lists++;
        return admin.list(target, options);
      },
      stream: async (target, options) => {
        const body = await admin.stream(target, options);
        if (isFirst) body.unshift(refusal);
        isFirst = false;
        return body;
      },
    };
    using watched = informerWith(client, path);
    await watched.informer.synced;
    await admin.create(path, named("fresh"));
    await watched.seen("added fresh");
    assert.equal(lists, 2);
    assert.equal(watched.informer.error, undefined);
  });

  it("keeps only metadata where only metadata is wanted", async () => {
    const namespace = await plane.createNamespace();
    const path = paths.configMaps(namespace);
    await admin.create(path, named("a"));
    using watched = informerWith(admin, path, true);
    await watched.informer.synced;
    await admin.create(path, named("b"));
    await watched.seen("added b");
    for (const name of ["a", "b"])
      assert.equal(watched.informer.get(namespace, name)?.data, undefined);
  });
});

describe("requestToken()", () => {
  it("gets a token for an audience that ends", async () => {
    const namespace = await plane.createNamespace();
    const { token, expiresAt } = await requestToken(admin, {
      namespace,
      serviceAccount: "default",
      audiences: ["vault"],
      expirationSeconds: 600,
    });
    const [, payload = ""] = token.split(".");
    const claims = JSON.parse(Buffer.from(payload, "base64url").toString()) as { aud: string[] };
    assert.deepEqual(claims.aud, ["vault"]);
    assert.ok(expiresAt > Date.now());
  });
});

/** A client's methods as properties, so that some can be replaced. */
function boundClient(client: ApiClient): ApiClient {
  return {
    server: client.server,
    get: (path, options) => client.get(path, options),
    list: (path, options) => client.list(path, options),
    create: (path, body, options) => client.create(path, body, options),
    replace: (path, body, options) => client.replace(path, body, options),
    patch: (path, body, type, options) => client.patch(path, body, type, options),
    delete: (path, options) => client.delete(path, options),
    stream: (path, options) => client.stream(path, options),
    request: (method, path, options) => client.request(method, path, options),
    close: () => client.close(),
  };
}
