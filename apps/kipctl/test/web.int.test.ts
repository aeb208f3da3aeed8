// kipctl web with a real API server, by HTTP, and in a browser if one is installed.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { request, type IncomingMessage } from "node:http";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import {
  sharedControlPlane,
  tokenKubeconfig,
  type SharedControlPlane,
} from "@kip/control-plane/testing";
import {
  createApiClient,
  ignoreNotFound,
  loadKubeConfig,
  paths,
  type ApiClient,
} from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { installCells } from "@kip/kip";
import { eventually, temporaryFolder } from "@kip/testing";
import { browserProgram, openPage } from "./browser.ts";
import { createExample } from "./example-cells.ts";

const program = path.join(import.meta.dirname, "../bin/kipctl");
const noBrowser =
  browserProgram === undefined && "no Chromium: apt-get install chromium-headless-shell";
/** File for a picture of the page, the one of docs/kipctl.md. */
const pictureFile = process.env["KIP_SCREENSHOT"] ?? "";
const hostile = '<img src=x onerror="document.title=1">';

describe("kipctl web", { timeout: 170_000 }, () => {
  let plane: SharedControlPlane;
  let client: ApiClient;
  let child: ChildProcess;
  let url: string;
  let pod: Pod;
  const folder = temporaryFolder();
  const name = "web-page";
  const cell = (): string => `cell-${pod.metadata.uid}`;

  before(
    async () => {
      plane = await sharedControlPlane();
      const config = await loadKubeConfig({ path: plane.kubeconfigPath });
      const options = { userAgent: "test/1", logger: silentLogger, clock: systemClock };
      client = createApiClient(config, options);
      await installCells(client);
      const labels = { "kip.elotl.co/cloud": "local" };
      await client.create(paths.nodes(), { kind: "Node", metadata: { name, labels } });
      const namespace = await plane.createNamespace("page");
      pod = await client.create<Pod>(paths.pods(namespace), {
        metadata: { name: "shop" },
        spec: {
          nodeName: name,
          containers: [{ name: "main", image: "i" }],
          terminationGracePeriodSeconds: 0,
        },
      });
      const { uid } = pod.metadata;
      await client.create(paths.cells(), {
        apiVersion: "kip.elotl.co/v1beta1",
        kind: "Cell",
        metadata: { name: cell() },
        spec: {
          podRef: { namespace, name: "shop", uid },
          nodeName: name,
          controllerID: "page",
          instanceType: "t3.nano",
          launchType: "spot",
          image: "i",
          rootDiskBytes: 2 ** 30,
          privateIPOnly: true,
          pricePerHour: 0.25,
          attempt: 0,
          restartCounts: {},
        },
      });
      await setStatus({
        phase: "Launching",
        conditions: [
          {
            type: "Launched",
            status: "False",
            reason: "CloudNoCapacity",
            message: hostile,
            lastTransitionTime: "2026-01-01T00:00:00Z",
          },
        ],
      });
      child = spawn(program, ["web", "--port=0", `--kubeconfig=${plane.kubeconfigPath}`], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const [line] = (await once(child.stdout ?? child, "data")) as [Buffer];
      url = line.toString().trim();
    },
    { timeout: 900_000 },
  );

  after(async () => {
    if (child?.exitCode === null) child.kill("SIGKILL");
    if (pod) await ignoreNotFound(client.delete(paths.cells(cell())));
    await ignoreNotFound(client.delete(paths.nodes(name)));
    client?.close();
    await plane?.[Symbol.asyncDispose]();
    folder.remove();
  });

  const setStatus = async (status: object): Promise<void> =>
    void (await client.patch(paths.cells(cell(), "status"), { status }, "merge"));

  /** The response to a request with these headers. */
  async function ask(
    where: string,
    options: { method?: string; headers?: Record<string, string> },
  ) {
    const asked = request(new URL(where, url), options);
    asked.end();
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    return { status: answer.statusCode, headers: answer.headers, body: await text(answer) };
  }

  it("listens on loopback, and has what waits and why", async () => {
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/$/);
    const state = JSON.parse((await ask("state.json", {})).body);
    const own = state.cells.find((each: { name: string }) => each.name === cell());
    assert.deepEqual([own.type, own.phase, own.perHour], ["t3.nano (spot)", "Launching", 0.25]);
    assert.ok(state.nodes.includes(name));
    const wait = state.waits.find((each: { name: string }) => each.name.endsWith("/shop"));
    assert.equal(wait.why, `${hostile} (CloudNoCapacity)`);
  });

  it("answers nothing to pages of other sites, and changes nothing", async () => {
    const rebound = await ask("state.json", { headers: { host: "attacker.example" } });
    assert.deepEqual([rebound.status, rebound.body.includes(cell())], [403, false]);
    assert.equal((await ask("", { method: "POST" })).status, 405);
    assert.equal((await ask("../etc/passwd", {})).status, 404);
    const { headers } = await ask("", {});
    assert.match(
      String(headers["content-security-policy"]),
      /default-src 'none'.*frame-ancestors 'none'/,
    );
    assert.equal(headers["access-control-allow-origin"], undefined);
  });

  it("sends changes when they happen", async () => {
    const response = await fetch(new URL("events", url));
    assert.ok(response.body);
    let seen = "";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    await reader.read();
    await setStatus({ phase: "Booting" });
    while (!seen.includes('"phase":"Booting"')) {
      const { value, done } = await reader.read();
      assert.ok(!done);
      seen += value;
    }
    await reader.cancel();
  });

  it("is drawn by a browser, with text of the cluster as text", { skip: noBrowser }, async () => {
    await using page = await openPage(browserProgram ?? "", url);
    const rows = `[...document.querySelectorAll("#cells tr")].map((row) => row.innerText).filter((row) => row.includes("/shop"))`;
    const shown = async (expression: string): Promise<string> =>
      JSON.stringify((await page.evaluate(expression)) ?? null);
    const untilShown = async (expression: string, pattern: RegExp): Promise<void> =>
      await eventually(async () => pattern.test(await shown(expression)), {
        what: `${expression} to match ${pattern}`,
        limitMs: 60_000,
        intervalMs: 100,
      });
    await untilShown(rows, /t3\.nano \(spot\).*Booting/);
    assert.match(await shown(`document.querySelector("#waits").innerText`), /<img src=x onerror=/);
    assert.equal(await shown(`document.querySelectorAll("img").length`), "0");
    assert.equal(await shown("document.title"), '"kip"');
    await setStatus({
      phase: "Claimed",
      ip: "10.0.0.7",
      startMs: { api: 20, cloud: 500, boot: 300, dial: 10, pull: 800, unpack: 90, start: 280 },
    });
    await untilShown(rows, /Claimed.*10\.0\.0\.7.*\$0\.25.*2\.00 s/);
    const bars = `[...document.querySelectorAll("td.start svg")].map((svg) => svg.getAttribute("aria-label"))`;
    assert.match(await shown(bars), /api 0\.02 s, cloud 0\.50 s, boot 0\.30 s/);
    const widths = `[...document.querySelectorAll("td.start rect")].map((bar) => Math.round(bar.getBoundingClientRect().width))`;
    assert.ok(((await page.evaluate(widths)) as number[]).some((width) => width > 50));
    assert.deepEqual(page.problems, []);
  });

  it(
    "is drawn with many cells, each with its phases, and what waits",
    { skip: noBrowser },
    async () => {
      // The failing cell above does not belong in the documentation.
      await client.delete(paths.cells(cell()));
      await client.delete(paths.pods(pod.metadata.namespace, "shop"));
      await client.delete(paths.nodes(name));
      await using _example = await createExample(client, plane);
      await using page = await openPage(browserProgram ?? "", url);
      const text = async (expression: string): Promise<string> =>
        String(await page.evaluate(`document.querySelector("${expression}")?.innerText`));
      await eventually(async () => /web-5/.test(await text("#cells")), { limitMs: 60_000 });
      await eventually(async () => /web-6/.test(await text("#waits")), { limitMs: 60_000 });
      const picture = await page.screenshot(1200);
      assert.equal(picture.toString("latin1", 1, 4), "PNG");
      assert.equal(picture.readUInt32BE(16), 1200);
      assert.ok(picture.readUInt32BE(20) > 300, "all of the page");
      if (pictureFile !== "") writeFileSync(pictureFile, picture);
    },
  );

  it("ends at once when it is interrupted, with pages open", async () => {
    const response = await fetch(new URL("events", url));
    child.kill("SIGINT");
    const [code] = (await once(child, "exit")) as [number | null];
    assert.equal(code, 130);
    await assert.rejects(async () => {
      for await (const chunk of response.body ?? []) assert.ok(chunk);
      throw new Error("closed");
    });
  });

  it("says that its port is taken", async () => {
    const { port } = new URL(plane.server);
    const args = ["web", `--port=${port}`, `--kubeconfig=${plane.kubeconfigPath}`];
    const other = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
    assert.match(await text(other.stderr), /port \d+: another program has it.*\n.*--port=0/);
  });

  it("ends, and names the right that is missing", async () => {
    const token = await plane.kubectl(["create", "token", "default", "-n", pod.metadata.namespace]);
    const kubeconfig = path.join(folder.path, "no-rights");
    writeFileSync(kubeconfig, tokenKubeconfig(plane, token.trim()));
    const other = spawn(program, ["web", "--port=0", `--kubeconfig=${kubeconfig}`], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    const exited = once(other, "exit");
    assert.match(await text(other.stderr), /cannot list resource "(cells|pods|nodes)"/);
    assert.deepEqual(await exited, [1, null]);
  });
});
