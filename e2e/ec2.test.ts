// kip with its AWS driver: each instance of a simulated EC2 is a machine of this computer. Uses its own cluster.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { whyNoMoto } from "@kip/cloud-aws/emulator";
import {
  cluster,
  emptyFolder,
  eventually,
  kipCommand,
  run,
  shellPod,
  stateDir,
  type Cluster,
} from "./cluster.ts";

const skip = await whyNoMoto();
const work = `${stateDir}-ec2`;
const host = "198.18.32.1";
const registryPort = 15_843;
/** A registry like ECR's: pulling needs a temporary login. */
const ecr = { host: "123456789012.dkr.ecr.us-east-1.amazonaws.com", port: 15_943 };
const settings = path.join(work, "settings.yaml");
const clusterFlags = [
  `--state-dir=${work}/state`,
  `--kubeconfig=${work}/kubeconfig`,
  "--namespace-name=kip-e2e-ec2",
];
const flags = {
  status: clusterFlags,
  up: [
    ...clusterFlags,
    "--cloud=ec2-local",
    "--port=16843",
    `--registry-port=${registryPort}`,
    `--host-port=${ecr.port}`,
    `--settings=${settings}`,
    "--network-range=198.18.32.0/22",
    "--service-range=10.118.0.0/16",
    "--node-name=kip-e2e-ec2",
  ],
};
const script = "echo started; trap 'echo stopped; exit 0' TERM; while :; do sleep 1; done";

interface CellSeen {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: {
    readonly podRef?: { readonly name: string };
    readonly launchType: string;
    readonly instanceType: string;
  };
  readonly status: {
    readonly phase: string;
    readonly instanceID: string;
    readonly ip: string;
    readonly podIP: string;
  };
}

describe("EC2 on this computer", { skip: skip ?? false }, () => {
  let kube: Cluster;
  before(async () => {
    const registries = [{ host: ecr.host, endpoint: `http://${host}:${ecr.port}` }];
    await emptyFolder(work, clusterFlags);
    await writeFile(settings, JSON.stringify({ registries }));
    kube = await cluster("ec2", flags);
  });
  after(async () => {
    const down = await kipCommand("down", ...clusterFlags);
    assert.equal(down.status, 0, down.stderr);
    await rm(work, { recursive: true });
  });

  it("runs a pod on an instance, at the addresses of its interface", async () => {
    await start("plain");
    assert.equal(await kube.ok("logs", "plain"), "started\n");
    const cell = await cellOf("plain");
    const instance = await instanceOf(cell);
    assert.deepEqual(instance.addresses, [cell.status.ip, cell.status.podIP]);
    assert.equal(instance.state, "running");
    assert.match(await kube.ok("exec", "plain", "--", "ip", "addr"), addressOf(cell.status.podIP));
    const [line] = machines();
    assert.ok(line !== undefined && !line.includes("id=seed-disk"), "it has no seed disk");
    assert.match(await consoleOf(), new RegExp(`"User data applied","instance":"${instance.id}"`));
  });

  it("lets no pod read its machine's metadata, as it is one hop further, but one that has the machine's network", async () => {
    await kube.apply(shellPod("host", script, { hostNetwork: true }));
    await kube.ok("wait", "--for=condition=Ready", "pod/host", "--timeout=240s");
    const token = `printf 'PUT /latest/api/token HTTP/1.0\\r\\nX-aws-ec2-metadata-token-ttl-seconds: 60\\r\\n\\r\\n'`;
    const ask = ["--", "sh", "-c", `${token} | nc -w 5 169.254.169.254 80`];
    assert.match((await kube.kubectl("exec", "host", ...ask)).stdout, /200 OK[^]*\n[\w-]{43}$/);
    assert.equal((await kube.kubectl("exec", "plain", ...ask)).stdout, "");
    await kube.ok("delete", "pod", "host", "--timeout=120s");
  });

  it("ends the machine and its instance with the pod", async () => {
    const cell = await cellOf("plain");
    await kube.ok("delete", "pod", "plain", "--timeout=120s");
    assert.deepEqual(machines(), []);
    assert.equal((await instanceOf(cell)).state, "terminated");
  });

  it("replaces a pod before its spot instance is taken back, by the notice that the machine reads", async () => {
    const pod = shellPod("web", script) as { readonly spec: object };
    const labels = { app: "web" };
    const annotations = { "pod.elotl.co/launch-type": "spot" };
    await kube.apply({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "web" },
      spec: {
        selector: { matchLabels: labels },
        template: { metadata: { labels, annotations }, spec: pod.spec },
      },
    });
    await kube.ok("rollout", "status", "deployment/web", "--timeout=240s");
    const [first] = await cells();
    assert.equal(first?.spec.launchType, "spot");
    const name = first.spec.podRef?.name ?? "";
    const kipLocal = ["local", "interrupt", `ec2/${name}`, "--notice=120s"];
    const given = await kipCommand(...kipLocal, ...clusterFlags.slice(0, 1));
    assert.equal(given.status, 0, given.stderr);
    const began = performance.now();
    await eventually("another pod", async () => {
      const ready = (await cells()).filter(({ status }) => status.phase === "Claimed");
      return ready.some(({ metadata }) => metadata.uid !== first.metadata.uid);
    });
    await kube.ok("wait", "--for=delete", `pod/${name}`, "--timeout=120s");
    assert.ok(performance.now() - began < 115_000, "it has gone before its instance was taken");
    await kube.ok("rollout", "status", "deployment/web", "--timeout=30s");
    const events = await kube.ok("get", "events", "-o", "jsonpath={.items[*].reason}");
    assert.match(events, /CellInterrupted/);
    assert.equal((await instanceOf(first)).state, "terminated");
    await kube.ok("delete", "deployment", "web");
    await eventually("all machines to go", () => machines().length === 0);
  });

  it("pulls from a private registry by the log-in that kip gets from ECR", async () => {
    await using registry = await serveEcr();
    await start("private", { image: `${ecr.host}/demo:latest` });
    assert.deepEqual(registry.users, ["", "AWS"]);
    await kube.ok("delete", "pod", "private", "--timeout=120s");
  });

  it("has standby cells, and gives one to a pod", async () => {
    const file = path.join(work, "state/provider.yaml");
    const before = await readFile(file, "utf8");
    const setPool = async (count: number): Promise<void> => {
      const pool = JSON.stringify([{ instanceType: "t3a.nano", count }]);
      await writeFile(`${file}.new`, before.replace(/^cells:$/m, `$&\n  standbyCells: ${pool}`));
      await rename(`${file}.new`, file);
    };
    await setPool(1);
    const isWaiting = ({ spec, status }: CellSeen): boolean =>
      spec.podRef === undefined && status.phase === "Ready";
    await eventually("a standby cell", async () => (await cells()).some(isWaiting));
    const standby = (await cells()).find(isWaiting);
    await start("quick");
    await setPool(0);
    assert.equal((await cellOf("quick")).metadata.uid, standby?.metadata.uid);
    assert.equal(await kube.ok("logs", "quick"), "started\n");
    // The machine has its pod's tags by now.
    const [stateFlag = ""] = clusterFlags;
    const given = await kipCommand("local", "interrupt", "ec2/quick", "--notice=900s", stateFlag);
    assert.match(given.stdout, /of pod ec2\/quick got notice/);
    await kube.ok("delete", "pod", "quick", "--timeout=120s");
    await eventually("all machines to go", () => machines().length === 0);
  });

  it("gives a pod another type where EC2 has no capacity", async () => {
    const [stateFlag = ""] = clusterFlags;
    const set = await kipCommand("local", "no-capacity", "--type=t3a.nano", stateFlag);
    assert.equal(set.status, 0, set.stderr);
    await start("other");
    const { instanceType } = (await cellOf("other")).spec;
    assert.match(instanceType, /^t\w+\.\w+$/);
    assert.notEqual(instanceType, "t3a.nano");
    await kube.ok("delete", "pod", "other", "--timeout=120s");
  });

  async function start(name: string, container: object = {}): Promise<void> {
    await kube.apply(shellPod(name, script, {}, container));
    await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=240s");
  }

  async function cells(): Promise<readonly CellSeen[]> {
    const text = await kube.ok("get", "cells", "-o", "json");
    const { items } = JSON.parse(text) as { readonly items: readonly CellSeen[] };
    // A new Cell has no status yet.
    return items.filter((cell) => "status" in cell);
  }

  async function cellOf(pod: string): Promise<CellSeen> {
    const found = (await cells()).find(({ spec }) => spec.podRef?.name === pod);
    assert.ok(found, pod);
    return found;
  }
});

/** A cell's instance in the EC2 API. */
async function instanceOf({ status }: CellSeen) {
  const config = readFileSync(path.join(work, "state/provider.yaml"), "utf8");
  const url = /endpointURL: (\S+)/.exec(config)?.[1] ?? "";
  const body = new URLSearchParams({
    Action: "DescribeInstances",
    "InstanceId.1": status.instanceID,
  });
  const answer = await (await fetch(url, { method: "POST", body })).text();
  const [, state = ""] = /<instanceState>.*?<name>([^<]*)</s.exec(answer) ?? [];
  const list = /<privateIpAddressesSet>(.*?)<\/privateIpAddressesSet>/s.exec(answer)?.[1] ?? "";
  const addresses = [...list.matchAll(/<privateIpAddress>([^<]*)</g)].map(([, each]) => each);
  return { id: status.instanceID, state, addresses };
}

function addressOf(ip: string): RegExp {
  return new RegExp(`inet ${ip.replaceAll(".", "\\.")}/`);
}

/** Command lines of the QEMU processes of this cluster. */
function machines(): readonly string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      } catch {
        return "";
      }
    })
    .filter((line) => line.includes("qemu-system") && line.includes(`${work}/state/cells/`));
}

/** The console of the only machine. */
async function consoleOf(): Promise<string> {
  const { stdout } = await run("sh", ["-c", `cat ${work}/state/cells/machines/*/console.log`]);
  return stdout;
}

/** Serves the local registry to clients with the login that moto issues. Records each user once. */
async function serveEcr() {
  const users: string[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const [, encoded = ""] = request.headers.authorization?.split(" ") ?? [];
      const [user = "", password] = Buffer.from(encoded, "base64").toString().split(":");
      if (!users.includes(user)) users.push(user);
      if (user !== "AWS" || password !== "123456789012-auth-token") {
        response.writeHead(401, { "www-authenticate": 'Basic realm="ecr"' }).end();
        return;
      }
      const { method = "GET", headers } = request;
      const accept = headers.accept ?? "*/*";
      const url = `http://127.0.0.1:${registryPort}${request.url}`;
      const answer = await fetch(url, { method, headers: { accept } });
      const kept = ["content-type", "content-length", "docker-content-digest"];
      const own = kept.flatMap((name): [string, string][] => {
        const value = answer.headers.get(name);
        return value === null ? [] : [[name, value]];
      });
      response.writeHead(answer.status, Object.fromEntries(own));
      response.end(Buffer.from(await answer.arrayBuffer()));
    })();
  });
  server.listen(ecr.port, host);
  await once(server, "listening");
  return {
    users,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
