import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { ApiClient, Query } from "@kip/k8s-client";
import { K8sError, paths } from "@kip/k8s-client";
import { FakeCellsApi } from "../testing/fake-cells-api.ts";
import { CellStore } from "./cell-store.ts";
import {
  cellFinalizer,
  nodeLabel,
  type Cell,
  type CellSpec,
  type StandbyCell,
} from "../state/cell.ts";

/** An API server with one Cell, which others may write between two requests. */
function start(...finalizers: string[]) {
  const metadata = { name: "c", uid: "u", resourceVersion: "1", finalizers };
  let cell: { readonly kind: "Cell"; metadata: typeof metadata } | undefined = {
    kind: "Cell",
    metadata,
  };
  let status: unknown;
  const between: (() => void)[] = [];
  const found = () => {
    if (!cell) throw new K8sError("K8S_NOT_FOUND", "there is none");
    return structuredClone(cell);
  };
  const change = (finalizersNow: string[]): void => {
    if (!cell) return;
    const resourceVersion = String(Number(cell.metadata.resourceVersion) + 1);
    cell.metadata = { ...cell.metadata, resourceVersion, finalizers: finalizersNow };
    if (finalizersNow.length === 0) cell = undefined;
  };
  const refusals: string[] = [];
  const refuse = (verb: "delete" | "patch"): void => void refusals.push(verb);
  const refused = (verb: string): void => {
    if (refusals[0] === verb) throw new K8sError("K8S_CONFLICT", `no ${refusals.shift()} now`);
  };
  const client = {
    get: async () => found(),
    delete: async (_path: string, { uid }: { readonly uid: string }) => {
      refused("delete");
      if (found().metadata.uid !== uid) throw new K8sError("K8S_CONFLICT", "another UID");
      return found();
    },
    patch: async (
      _path: string,
      patch: { readonly metadata: Partial<typeof metadata>; readonly status?: unknown },
    ) => {
      between.shift()?.();
      refused("patch");
      if ((patch.metadata.uid ?? "u") !== found().metadata.uid)
        throw new K8sError("K8S_CONFLICT", "another UID");
      const { resourceVersion, finalizers: before } = found().metadata;
      if ((patch.metadata.resourceVersion ?? resourceVersion) !== resourceVersion)
        throw new K8sError("K8S_CONFLICT", "it has changed");
      if (patch.status !== undefined) status = patch.status;
      change(patch.metadata.finalizers ?? before);
      return cell ? found() : { metadata: {} };
    },
  } as unknown as ApiClient; // the methods that are called
  const remove = async (uid = "u"): Promise<void> =>
    await new CellStore(client).remove({ metadata: { name: "c", uid } } as Cell);
  const write = async (uid = "u"): Promise<void> => {
    const seen = { metadata: { name: "c", uid }, spec: { podRef: {} } } as Cell;
    await new CellStore(client).writeStatus(seen, { phase: "Ready" });
  };
  const left = () => cell?.metadata.finalizers;
  return { remove, write, refuse, change, between, left, status: () => status };
}

describe("CellStore.writeStatus()", () => {
  it("succeeds for a Cell that is gone or another one", async () => {
    const { write, remove, status } = start(cellFinalizer);
    await write("of another one");
    assert.equal(status(), undefined);
    await remove();
    await write();
    assert.equal(status(), undefined);
  });

  it("replaces the version that it knows, and reads the Cell again after another client's write", async () => {
    const { write, refuse, change, between, status } = start(cellFinalizer);
    between.push(() => change([cellFinalizer, "example.com/backup"]));
    await write();
    assert.ok(status() !== undefined);
    for (let conflicts = 0; conflicts < 11; conflicts++) refuse("patch");
    await assert.rejects(write(), { code: "K8S_CONFLICT" });
  });

  it("does not take back what a kip wrote that came later", async () => {
    const api = new FakeCellsApi();
    const arrivals: (() => void)[] = [];
    const late = async <T>(effect: () => T): Promise<T> =>
      await new Promise((resolve, reject) => {
        arrivals.push(() => void Promise.resolve().then(effect).then(resolve, reject));
      });
    const next = new CellStore(api.client(async (effect) => effect()));
    const spec = { podRef: { uid: "p" }, attempt: 0 } as unknown as CellSpec; // the fields that are read
    const cell = await next.create(spec);
    const killed = new CellStore(api.client(late));
    const never = killed.writeStatus(cell, { phase: "Booting" });
    await next.writeStatus(cell, { phase: "Ready" });
    await next.writeStatus(cell, { phase: "Claimed" });
    arrivals[0]?.(); // from a dead process, which does nothing afterwards
    await setImmediate();
    assert.equal(api.cells.get(cell.metadata.name)?.status?.phase, "Claimed");
    for (let turn = 1; turn < 3; turn++) {
      arrivals[turn]?.();
      await setImmediate();
    }
    await never; // a process that continues reads the Cell and writes
    assert.equal(api.cells.get(cell.metadata.name)?.status?.phase, "Booting");
  });
});

describe("CellStore.remove()", () => {
  it("deletes a Cell without other finalizers, and may be repeated", async () => {
    const { remove, left } = start(cellFinalizer);
    await remove();
    assert.equal(left(), undefined);
    await remove();
  });

  it("does not take a conflict for the end of a Cell that is there", async () => {
    const { remove, refuse, left } = start(cellFinalizer);
    for (let conflicts = 0; conflicts < 11; conflicts++) refuse("delete");
    await assert.rejects(remove(), { code: "K8S_CONFLICT" });
    assert.deepEqual(left(), [cellFinalizer]);
    await remove();
    assert.equal(left(), undefined);
    refuse("delete");
    await remove();
  });

  it("leaves the finalizers of others", async () => {
    const { remove, left } = start("example.com/backup", cellFinalizer, "foregroundDeletion");
    await remove();
    assert.deepEqual(left(), ["example.com/backup", "foregroundDeletion"]);
    await remove();
  });

  it("leaves a finalizer that is set at the same moment", async () => {
    const { remove, left, change, between } = start(cellFinalizer);
    between.push(() => change([cellFinalizer, "example.com/backup"]));
    await remove();
    assert.deepEqual(left(), ["example.com/backup"]);
  });

  for (const isByForce of [false, true])
    it(`forgets the version of a Cell that ${isByForce ? "a user has removed by force" : "was gone, as an answer was lost"}`, async () => {
      const api = new FakeCellsApi();
      const statusVersions: unknown[] = [];
      let isLost = false;
      const real = api.client(async (effect) => {
        const value = effect();
        if (!isLost || api.cells.size > 0) return value;
        isLost = false;
        throw new K8sError("K8S_UNAVAILABLE", "no answer", { retryable: true });
      });
      const patch: ApiClient["patch"] = async (path, body, ...rest) => {
        const { metadata } = body as Partial<Cell>;
        if (path.endsWith("/status")) statusVersions.push(metadata?.resourceVersion);
        return await real.patch(path, body, ...rest);
      };
      const store = new CellStore({ ...real, patch });
      const cell = await store.create({ podRef: { uid: "p" }, attempt: 0 } as CellSpec);
      await store.writeStatus(cell, { phase: "Claimed" });
      const known = api.cells.get(cell.metadata.name)?.metadata.resourceVersion;
      await store.writeStatus(cell, { phase: "Claimed" });
      const path = `/apis/kip.elotl.co/v1beta1/cells/${cell.metadata.name}`;
      if (isByForce) {
        const user = api.client(async (effect) => effect());
        await user.patch(path, { metadata: { finalizers: [] } }, "merge");
        await user.delete(path, {});
      } else {
        await store.markDeleted(cell);
        isLost = true;
        await assert.rejects(store.remove(cell, { isMarked: true }), { code: "K8S_UNAVAILABLE" });
      }
      assert.equal(api.cells.size, 0);
      await store.remove(cell, { isMarked: true });
      await store.writeStatus(cell, { phase: "Terminating" });
      // A store that remembers a version sends that one.
      const { resourceVersion } = cell.metadata;
      assert.notEqual(known, resourceVersion);
      assert.deepEqual(statusVersions, [resourceVersion, known, resourceVersion]);
    });

  it("does not delete a Cell that the next kip has written when the request arrives late", async () => {
    const api = new FakeCellsApi();
    const next = new CellStore(api.client(async (effect) => effect()));
    const cell = await next.create({ podRef: { uid: "p" }, attempt: 0 } as CellSpec);
    let isOver = false;
    const earlier = api.client(async (effect) => effect());
    const late: ApiClient["delete"] = async (path, options) => {
      if (isOver) throw new K8sError("K8S_LEASE_LOST", "another kip has its turn");
      isOver = true;
      await next.writeStatus(cell, { phase: "Ready" });
      return await earlier.delete(path, options);
    };
    const stale = new CellStore({ ...earlier, delete: late });
    await assert.rejects(stale.remove(cell), { code: "K8S_LEASE_LOST" });
    const kept = api.cells.get(cell.metadata.name);
    assert.deepEqual([kept?.status?.phase, kept?.metadata.deletionTimestamp], ["Ready", undefined]);
    // In its own turn it deletes the Cell, whatever others have written to it.
    await next.remove(cell);
    assert.equal(api.cells.size, 0);
    const one = await next.create({ podRef: { uid: "q" }, attempt: 0 } as CellSpec);
    await new CellStore(earlier).writeStatus(one, { phase: "Ready" });
    await next.remove(one);
    assert.equal(api.cells.size, 0);
  });

  it("deletes a Cell that another client writes all the time", async () => {
    const api = new FakeCellsApi();
    const client = api.client(async (effect) => effect());
    const other = new CellStore(client);
    const cell = await other.create({ podRef: { uid: "p" }, attempt: 0 } as CellSpec);
    const hindered: ApiClient["delete"] = async (path, options) => {
      await other.writeStatus(cell, { phase: "Ready" });
      return await client.delete(path, options);
    };
    await new CellStore({ ...client, delete: hindered }).remove(cell);
    assert.equal(api.cells.size, 0);
  });

  it("leaves a later Cell of the same name alone", async () => {
    const { remove, left } = start(cellFinalizer);
    await remove("earlier");
    assert.deepEqual(left(), [cellFinalizer]);
  });
});

describe("what CellStore writes", () => {
  function start() {
    const written: Readonly<Record<string, unknown>>[] = [];
    const note = async (_path: string, body: Readonly<Record<string, unknown>>) => {
      written.push(body);
      return body;
    };
    const store = new CellStore({ create: note, patch: note } as unknown as ApiClient); // the methods that are called
    const podRef = { namespace: "shop", name: "web", uid: "u" };
    const machine = { nodeName: "kip", controllerID: "id", instanceType: "t3.nano", attempt: 0 };
    return { store, written, spec: { ...machine, launchType: "spot", podRef } as CellSpec };
  }
  const labels = { app: "web", [nodeLabel]: "another" };
  const standby = {
    metadata: { name: "s", uid: "s" },
    spec: { nodeName: "kip", standby: true },
  } as StandbyCell;

  it("hostile pod: has the pod's labels, and none of them in the place of kip's own", async () => {
    const { store, written, spec } = start();
    const cell = await store.create(spec, labels);
    assert.deepEqual(cell.metadata.labels, { app: "web", [nodeLabel]: "kip" });
    await store.claim(standby, spec, labels);
    const claimed = written[1] as unknown as Cell; // what was sent
    assert.deepEqual(claimed.metadata.labels, { app: "web", [nodeLabel]: "kip" });
  });

  it("is nothing that a tool which deployed the pod would delete", async () => {
    const { store, written, spec } = start();
    const kept = {
      "app.kubernetes.io/name": "web",
      "app.kubernetes.io/part-of": "shop",
      "workflows.argoproj.io/workflow": "nightly",
      "not-fluxcd.io/name": "shop",
    };
    const deployed = {
      ...kept,
      "app.kubernetes.io/instance": "shop",
      "app.kubernetes.io/managed-by": "Helm",
      "argocd.argoproj.io/instance": "shop",
      "kapp.k14s.io/app": "1600000000000000000",
      "kapp.k14s.io/association": "v1.0",
      "kustomize.toolkit.fluxcd.io/name": "shop",
      "helm.toolkit.fluxcd.io/name": "shop",
      "objectset.rio.cattle.io/hash": "abc",
      "applyset.kubernetes.io/part-of": "applyset-x-v1",
      "addonmanager.kubernetes.io/mode": "Reconcile",
    };
    await store.create(spec, deployed);
    await store.createStandby(standby.spec, "s");
    await store.claim(standby, spec, deployed);
    const metadata = written.map((each) => (each as unknown as Cell).metadata);
    const own = { [nodeLabel]: "kip" };
    assert.deepEqual(
      metadata.map((each) => each.labels),
      [{ ...kept, ...own }, own, { ...kept, ...own }],
    );
    for (const { annotations } of metadata)
      assert.deepEqual(annotations, {
        "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
        "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
      });
  });

  it("has the original's fields in the status, in its words", async () => {
    const { store, written, spec } = start();
    const cell = { metadata: { name: "c", uid: "c" }, spec } as Cell;
    await store.writeStatus(cell, { phase: "Ready", instanceID: "i-1" });
    assert.deepEqual(written[0]?.["status"], {
      podName: "web",
      podNamespace: "shop",
      node: "kip",
      launchType: "Spot",
      instanceType: "t3.nano",
      controllerID: "id",
      phase: "Ready",
      instanceID: "i-1",
    });
  });
});

describe("CellStore.create()", () => {
  it("installs the resource again, once for all, that was deleted while kip runs", async () => {
    const requests: string[] = [];
    let isServed = false;
    const notServed = new K8sError(
      "K8S_NOT_FOUND",
      "the server could not find the requested resource",
    );
    const client = {
      create: async (_path: string, { metadata }: Cell) => {
        requests.push(`create ${metadata.name}`);
        if (!isServed) throw notServed;
        return { metadata: { ...metadata, uid: "u" } };
      },
      patch: async (path: string) => {
        requests.push(path);
        isServed = true;
        return { metadata: { name: "cells.kip.elotl.co", uid: "u" } };
      },
      list: async () => await Promise.resolve({ items: [] }),
    };
    const store = new CellStore(client as unknown as ApiClient); // the parts that are used
    const spec = (uid: string) =>
      ({ podRef: { namespace: "n", name: uid, uid }, nodeName: "kip", attempt: 0 }) as CellSpec;
    await Promise.all(["a", "b"].map(async (uid) => await store.create(spec(uid))));
    assert.deepEqual(requests.slice(0, 3), [
      "create cell-a",
      "create cell-b",
      "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cells.kip.elotl.co",
    ]);
    assert.deepEqual(requests.slice(3).toSorted(), ["create cell-a", "create cell-b"]);
  });

  it("repeats nothing while the resource is being deleted", async () => {
    const notServed = new K8sError("K8S_NOT_FOUND", "not found");
    const refused = new K8sError("K8S_REQUEST_FAILED", "create not allowed while terminating");
    const refusals = [notServed, refused];
    const client = {
      create: async () => {
        throw refusals.shift() ?? refused;
      },
      patch: async () => ({ metadata: { deletionTimestamp: "2030-01-01T00:00:00Z" } }),
    };
    const store = new CellStore(client as unknown as ApiClient); // the parts that are used
    const spec = { podRef: { namespace: "n", name: "a", uid: "a" }, nodeName: "kip", attempt: 0 };
    await assert.rejects(store.create(spec as CellSpec), refused);
  });
});

describe("CellStore.list()", () => {
  it("reads thousands of Cells in parts, which have one selector", async () => {
    const all = Array.from({ length: 1200 }, (_, index) => ({ metadata: { uid: String(index) } }));
    const queries: Query[] = [];
    const client = {
      list: async (_path: string, { query = {} }: { readonly query?: Query } = {}) => {
        queries.push(query);
        const from = Number(query["continue"] ?? 0);
        const to = from + Number(query["limit"]);
        const next = to < all.length ? String(to) : "";
        return { metadata: { continue: next }, items: all.slice(from, to) };
      },
    };
    const store = new CellStore(client as unknown as ApiClient); // the part that is used
    assert.deepEqual(await store.list("a=b"), all);
    assert.equal(queries.length, 3);
    assert.deepEqual(
      queries.map(({ labelSelector, limit }) => [labelSelector, limit]),
      queries.map(() => ["a=b", 500]),
    );
  });

  it("reads all of them at once when the API server has forgotten the moment of the first part", async () => {
    const all = ["a", "b", "c"].map((uid) => ({ metadata: { uid } }));
    const queries: Query[] = [];
    const client = {
      list: async (_path: string, { query = {} }: { readonly query?: Query } = {}) => {
        queries.push(query);
        if (query["continue"] !== undefined)
          throw new K8sError("K8S_GONE", "The token has expired");
        return query["limit"] === undefined
          ? { metadata: {}, items: all }
          : { metadata: { continue: "a" }, items: all.slice(0, 1) };
      },
    };
    const store = new CellStore(client as unknown as ApiClient); // the part that is used
    assert.deepEqual(await store.list("a=b"), all);
    assert.deepEqual(queries.at(-1), { labelSelector: "a=b" });
  });
});

describe("CellStore.ensureCrd()", () => {
  it("resolves when Cells are served, which the API server refuses at first", async () => {
    const refusals = [
      new K8sError("K8S_NOT_FOUND", "the server could not find the requested resource"),
      new K8sError("K8S_TOO_MANY_REQUESTS", "storage is (re)initializing", { retryable: true }),
    ];
    const client = {
      patch: async () => ({ metadata: { name: "cells.kip.elotl.co", uid: "u" } }),
      list: async () => {
        const refusal = refusals.shift();
        if (refusal) throw refusal;
        return { items: [] };
      },
    };
    await new CellStore(client as unknown as ApiClient).ensureCrd(); // the parts that are used
    assert.deepEqual(refusals, []);
  });
});

describe("CellStore.restoreLabels()", () => {
  it("waits while the API server does not serve Cells, because their resource has changed", async () => {
    const refusals = [new K8sError("K8S_TOO_MANY_REQUESTS", "storage is (re)initializing")];
    const items = ["own", "foreign"].map((nodeName) => ({
      metadata: { name: nodeName, uid: nodeName },
      spec: { nodeName },
    }));
    const patched: string[] = [];
    const client = {
      list: async () => {
        const refusal = refusals.shift();
        if (refusal) throw refusal;
        return { metadata: {}, items };
      },
      patch: async (path: string) => patched.push(path),
    };
    const store = new CellStore(client as unknown as ApiClient); // the parts that are used
    assert.deepEqual(await store.restoreLabels("own"), items);
    assert.deepEqual(patched, [paths.cells("own")]);
  });
});
