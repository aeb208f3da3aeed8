import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { connect, type Socket } from "node:net";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { parseReference, prefetchImage, pushLayout } from "@kip/oci-image";
import { tar, writeLayout, temporaryFolder, freePort } from "@kip/testing";
import { hasRegistry, pushToRegistry, startRegistry } from "../src/local/run/registry.ts";

/** Stands in for the host's address on the cells' network. */
const cells = "127.77.1.1";
const canRun = process.getuid?.() === 0 && (await hasRegistry());

describe("startRegistry()", { skip: canRun ? false : "needs root and docker-registry" }, () => {
  const folder = temporaryFolder();
  const layout = path.join(folder.path, "layout");
  const options = {
    address: cells,
    dir: path.join(folder.path, "state", "registry"),
    logFile: path.join(folder.path, "registry.log"),
    limitBytes: 4 * 2 ** 20,
    logger: silentLogger,
  };
  const headers = { accept: "application/vnd.oci.image.manifest.v1+json" };
  let port = 0;
  let registry: AsyncDisposable;
  const umask = process.umask(0o077); // the strictest umask that a user may have

  before(async () => {
    process.env["KIP_REGISTRY_TEST"] = "of the caller";
    mkdirSync(path.dirname(options.dir), { mode: 0o700 });
    writeLayout(layout, { layers: [tar([{ name: "file", content: Buffer.from("hello") }])] });
    port = await freePort();
    registry = await startRegistry({ ...options, port });
    await pushToRegistry(layout, "app:1", port);
  });
  after(async () => {
    await registry[Symbol.asyncDispose]();
    assert.deepEqual(programs(), [], "nothing is left");
    process.umask(umask);
    folder[Symbol.dispose]();
  });

  const url = (address: string, rest: string): string => `http://${address}:${port}/v2/${rest}`;

  /** The processes of this registry. */
  function programs(): readonly string[] {
    return readdirSync("/proc").filter((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        return line.includes("docker-registry") && readlinkSync(`/proc/${pid}/cwd`) === options.dir;
      } catch {
        return false;
      }
    });
  }

  /** Names and sizes of the stored files. */
  function files(): readonly (readonly [name: string, sizeBytes: number])[] {
    const data = path.join(options.dir, "data");
    return readdirSync(data, { recursive: true, encoding: "utf8" })
      .map((name) => [name, statSync(path.join(data, name))] as const)
      .filter(([, stats]) => stats.isFile())
      .map(([name, { size }]) => [name, size] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1));
  }

  it("lets users at localhost push what cells pull", async () => {
    const registries = [{ host: "kip.local", endpoint: `http://${cells}:${port}` }];
    const cache = path.join(folder.path, "cache");
    const fetched = await prefetchImage(parseReference("kip.local/app:1"), cache, { registries });
    assert.ok(fetched.writtenBytes > 0);
  });

  it("refuses every request of a cell that writes or deletes", async () => {
    const head = await fetch(url("127.0.0.1", "app/manifests/1"), {
      method: "HEAD",
      headers,
    });
    const digest = head.headers.get("docker-content-digest") ?? "";
    assert.match(digest, /^sha256:/);
    const requests: readonly (readonly [string, string])[] = [
      ["POST", "app/blobs/uploads/"],
      ["POST", "other/blobs/uploads/"],
      ["PUT", "app/manifests/1"],
      ["DELETE", `app/manifests/${digest}`],
    ];
    const before = files();
    for (const [method, rest] of requests) {
      const response = await fetch(url(cells, rest), {
        method,
        ...(method === "DELETE" ? {} : { body: "{}" }),
      });
      assert.equal(response.status, 405, `${method} ${rest}`);
    }
    assert.deepEqual(files(), before);
  });

  it("runs as users without a name and rights, and without the caller's environment", () => {
    const pids = programs();
    assert.equal(pids.length, 2);
    for (const pid of pids) {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      assert.match(status, /^Uid:\t18790755\d\d\t/m);
      assert.match(status, /^CapBnd:\t0+$/m);
      assert.match(status, /^NoNewPrivs:\t1$/m);
      const names = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
      assert.deepEqual(
        names.filter((each) => each !== "" && !each.startsWith("PWD=")),
        [],
      );
    }
    assert.equal(new Set(pids.map((pid) => statSync(`/proc/${pid}`).uid)).size, 2);
  });

  it("refuses a push that goes over the limit, and keeps the images that are there", async () => {
    const large = path.join(folder.path, "large");
    writeLayout(large, {
      layers: [tar([{ name: "file", content: randomBytes(options.limitBytes + 1) }])],
    });
    const registries = [{ host: "kip.local", endpoint: `http://127.0.0.1:${port}` }];
    const push = pushLayout(large, parseReference("kip.local/large:1"), { registries });
    await assert.rejects(push, /may hold 4Mi/);
    const total = files().reduce((sum, [, sizeBytes]) => sum + sizeBytes, 0);
    assert.ok(total < options.limitBytes, `${total} bytes`);
    assert.equal((await fetch(url(cells, "app/manifests/1"), { headers })).status, 200);
  });

  it("answers others while one cell holds as many connections as it can", async () => {
    const sockets: Socket[] = [];
    const refused = Promise.withResolvers<void>();
    for (let index = 0; index < 200; index++) {
      const socket = connect({ port, host: cells, localAddress: "127.77.1.2" });
      sockets.push(socket.on("error", () => {}).on("close", () => refused.resolve()));
    }
    await refused.promise;
    assert.equal((await fetch(url(cells, "app/manifests/1"), { headers })).status, 200);
    for (const socket of sockets) socket.destroy();
  });

  it("refuses a web page's request that names another host", async () => {
    const socket = connect(port, "127.0.0.1");
    socket.end(
      "POST /v2/app/blobs/uploads/ HTTP/1.1\r\nHost: page.test\r\nContent-Length: 0\r\n\r\n",
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    assert.match(answer.toString(), /^HTTP\/1.1 403 /);
    socket.destroy();
  });

  it("says which program has its port", async () => {
    const other = { ...options, dir: path.join(folder.path, "other") };
    await assert.rejects(startRegistry({ ...other, port }), {
      code: "PORT_TAKEN",
      remedy: /--registry-port/,
    });
  });
});
