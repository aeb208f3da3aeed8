import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { before, describe, it } from "node:test";
import { cluster, run, shellPod, type Cluster } from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const metadata = "169.254.169.254";

/** How many bytes to send to measure a link: four seconds at a rate of 1M. */
const loadBytes = 512 * 1024;

/** Port 9001 counts the bytes it gets, and port 9002 sends as many as the client requests. */
const speedServers = `
while :; do nc -l -p 9001 -e wc -c; done &
while :; do head -c ${loadBytes} /dev/zero | nc -l -p 9002; done`;

function shaped(name: string, script: string, annotations: Readonly<Record<string, string>>) {
  const pod = shellPod(name, script) as { metadata: object };
  return { ...pod, metadata: { ...pod.metadata, annotations } };
}

/** Seconds to send or receive {@link loadBytes}. */
async function transfer(host: string, direction: "up" | "down"): Promise<number> {
  const startedAt = performance.now();
  const socket = connect({ host, port: direction === "up" ? 9001 : 9002 });
  if (direction === "up") socket.end(Buffer.alloc(loadBytes));
  const received = await buffer(socket);
  if (direction === "up") assert.equal(received.toString().trim(), String(loadBytes));
  else assert.equal(received.length, loadBytes);
  return (performance.now() - startedAt) / 1000;
}

describe("what a pod reaches", () => {
  let kube: Cluster;
  before(async () => {
    kube = await cluster("network");
    const serve = "mkdir -p /www; echo hello > /www/index.html; httpd -f -p 8080 -h /www";
    const limits = (direction: string) => ({ [`kubernetes.io/${direction}-bandwidth`]: "1M" });
    await kube.apply(
      shaped("server", `${serve} &${speedServers}`, limits("egress")),
      shaped("client", speedServers, limits("ingress")),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/server", "pod/client", "--timeout=240s");
  });

  /** Whether the client can open a TCP connection to the address. */
  async function reaches(address: string, port: number): Promise<boolean> {
    const script = `nc -w 3 ${address} ${port} </dev/null >/dev/null 2>&1`;
    const result = await kube.kubectl("exec", "client", "--", "timeout", "5", "sh", "-c", script);
    return result.status === 0;
  }

  async function addresses(): Promise<{ pod: string; machine: string; host: string }> {
    const show = async (what: string, name: string, path: string): Promise<string> =>
      await kube.ok("get", what, name, "-o", `jsonpath={${path}}`);
    const uid = await show("pod", "server", ".metadata.uid");
    return {
      pod: await show("pod", "server", ".status.podIP"),
      machine: await show("cell", `cell-${uid}`, ".status.ip"),
      host: own.hostAddress,
    };
  }

  it("is other pods, the API server, the registry and the kubelet", async () => {
    const { pod, host } = await addresses();
    const page = await kube.ok("exec", "client", "--", "wget", "-qO-", `http://${pod}:8080/`);
    assert.equal(page, "hello\n");
    for (const port of [own.apiPort, own.registryPort, 10_250])
      assert.ok(await reaches(host, port), `port ${port} of the host`);
    const fromHost = await fetch(`http://${pod}:8080/`);
    assert.equal(await fromHost.text(), "hello\n");
  });

  it("stops at the cell with addresses of the Service range that no Service has", async () => {
    const path = "jsonpath={.spec.clusterIP}";
    const api = await kube.ok("get", "service", "kubernetes", "-n", "default", "-o", path);
    const range = api.split(".").slice(0, 2).join(".");
    assert.equal(await reaches(`${range}.255.254`, 443), false);
    // If the packet left the cell, this rule would keep it inside of the cluster.
    const namespace = `--net=/run/kip/${own.name}/netns`;
    const rules = await run("nsenter", [namespace, "nft", "list", "table", "ip", "kip"]);
    const refused = rules.stdout.split("\n").find((line) => line.includes("reject with tcp reset"));
    assert.ok(refused?.includes(`ip daddr ${range}.0.0/16`), rules.stdout);
  });

  it("is held back by bandwidth annotations, each in its direction", async (t) => {
    const ip = async (name: string): Promise<string> =>
      await kube.ok("get", "pod", name, "-o", "jsonpath={.status.podIP}");
    const [egress, ingress] = [await ip("server"), await ip("client")];
    const seconds = {
      shapedDown: await transfer(egress, "down"),
      freeUp: await transfer(egress, "up"),
      shapedUp: await transfer(ingress, "up"),
      freeDown: await transfer(ingress, "down"),
    };
    t.diagnostic(JSON.stringify(seconds));
    // An initial burst takes no time. A busy computer may be slower than the limit, but never faster.
    const least = ((loadBytes - 2 * 32 * 1024) * 8) / 1e6;
    assert.ok(seconds.shapedDown > least && seconds.shapedUp > least, JSON.stringify(seconds));
    assert.ok(seconds.shapedDown > 2 * seconds.freeDown, JSON.stringify(seconds));
    assert.ok(seconds.shapedUp > 2 * seconds.freeUp, JSON.stringify(seconds));
  });

  it("is a registry that only pulls", async () => {
    const { host } = await addresses();
    const upload = `http://${host}:${own.registryPort}/v2/demo/blobs/uploads/`;
    const post = ["wget", "-T", "9", "-O-", "--post-data", "x", upload];
    const result = await kube.kubectl("exec", "client", "--", ...post);
    assert.match(result.stderr, /405 Method Not Allowed/);
  });

  it("reaches no other port of the host, no agent and not the metadata service", async () => {
    const { machine, host } = await addresses();
    const server = createServer((_request, response) => response.end("secret")).listen(
      0,
      "0.0.0.0",
    );
    try {
      await once(server, "listening");
      const { port } = server.address() as AddressInfo; // the server listens on TCP
      const closed: readonly (readonly [string, number])[] = [
        [host, port],
        [host, 22],
        [machine, 6421],
        [metadata, 80],
      ];
      for (const [address, each] of closed)
        assert.equal(await reaches(address, each), false, `${address}:${each}`);
    } finally {
      server.close();
    }
    await kube.ok("delete", "pod", "--all", "--timeout=120s");
  });
});
