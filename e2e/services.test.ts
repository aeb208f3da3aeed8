import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { adminPolicy, definitionName, podsOf, policyDefinition } from "./admin-policies.ts";
import {
  cluster,
  eventually,
  kipCommand,
  providerProcess,
  run,
  shellPod,
  type Cluster,
} from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

/** Programs of the cell, which has socat. The demo image has no program for UDP or SCTP. */
const ofCell = {
  volumes: [{ name: "cell", hostPath: { path: "/" } }],
};
const mounts = { volumeMounts: [{ name: "cell", mountPath: "/cell" }] };

/** Requests the URL in the file /url repeatedly, and records the answers. */
const asking = `
while :; do [ -s /url ] && { wget -qT3 -O- "$(cat /url)" || echo failed; } >>/answers; sleep 0.1; done`;

const serve = `
chroot /cell socat UDP4-LISTEN:5300,fork SYSTEM:hostname &
chroot /cell socat SCTP4-LISTEN:5301,fork SYSTEM:'read word; echo "$word $(hostname)"' &
mkdir -p /www; hostname >/www/index.html; httpd -p 8080 -h /www${asking}`;

/** Ports of the cell that are forwarded to the servers of `serve`. Only ready if one answers at the cell's loopback address. */
const hostPorts = {
  ports: [
    { containerPort: 8080, hostPort: 18_080 },
    { containerPort: 5300, hostPort: 15_300, protocol: "UDP" },
  ],
  readinessProbe: { httpGet: { host: "127.0.0.1", port: 18_080 }, periodSeconds: 1 },
};

function pod(name: string, app: string, script: string, container: object = {}): object {
  const made = shellPod(name, script, ofCell, { ...mounts, ...container }) as { metadata: object };
  return { ...made, metadata: { ...made.metadata, labels: { app, name } } };
}

function service(name: string, selector: object, spec: object = {}): object {
  const tcp = { name: "http", port: 80, targetPort: 8080 };
  const udp = { name: "udp", port: 53, targetPort: 5300, protocol: "UDP" };
  const sctp = { name: "sctp", port: 53, targetPort: 5301, protocol: "SCTP" };
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { selector, ports: [tcp, udp, sctp], ...spec },
  };
}

function policy(name: string, spec: object): object {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name },
    spec: { podSelector: { matchLabels: { app: "web" } }, ...spec },
  };
}

const kind = "AdminNetworkPolicy";
const crd = `crd/${definitionName(kind)}`;

describe("Services and network policies", () => {
  let kube: Cluster;
  before(async () => {
    kube = await cluster("services");
    await kube.apply(
      pod("one", "web", serve, hostPorts),
      pod("two", "web", serve),
      pod("client", "client", asking),
      service("web", { app: "web" }),
      service("first", { name: "one" }, { type: "NodePort" }),
      service("balanced", { app: "web" }, { type: "LoadBalancer", externalTrafficPolicy: "Local" }),
      service("sticky", { app: "web" }, { sessionAffinity: "ClientIP" }),
      service("empty", { name: "empty" }),
    );
    const pods = ["pod/one", "pod/two", "pod/client"];
    await kube.ok("wait", "--for=condition=Ready", ...pods, "--timeout=240s");
    await eventually("both servers", async () => (await servers("web", 8)).size === 2, 30_000);
  });

  after(async () => {
    await kube.ok("delete", "networkpolicy", "--all");
    await kube.ok("delete", crd, "--ignore-not-found");
    await kube.ok("delete", "pod", "--all", "--timeout=120s");
  });

  /** Output of a shell command in a pod, even if it fails. */
  const within = async (name: string, script: string): Promise<string> =>
    await kube.ok("exec", name, "--", "sh", "-c", `${script} 2>&1; true`);
  const addressOf = async (name: string): Promise<string> =>
    await kube.ok("get", "service", name, "-o", "jsonpath={.spec.clusterIP}");
  /** Sends a request from a pod to a Service. Returns the server's name, or why there is no answer. */
  const ask = async (from: string, name: string): Promise<string> =>
    (await within(from, `wget -qT3 -O- http://${await addressOf(name)}/`)).trim();
  /** The servers that answer this number of requests. */
  const servers = async (name: string, count: number): Promise<ReadonlySet<string>> => {
    const loop = `for i in $(seq ${count}); do wget -qT3 -O- http://${await addressOf(name)}/; done`;
    return new Set((await within("client", loop)).trim().split("\n"));
  };

  /** Output of `kip explain network`, after its exit code. */
  const explain = async (pod: string, to: string): Promise<string> => {
    const flags = [`--kubeconfig=${kube.kubeconfig}`, "--namespace=services", "--to", to];
    const { status, stdout, stderr } = await kipCommand("explain", "network", pod, ...flags);
    return `${status}: ${stdout}${stderr}`;
  };

  it("lead connections of a pod to all endpoints", async () => {
    assert.deepEqual(await servers("web", 20), new Set(["one", "two"]));
    assert.match(await explain("client", "web:80"), /^0: [^]*leads to 2 endpoints/);
  });

  it("lead UDP", async () => {
    const answer = async (): Promise<string> =>
      await within(
        "client",
        `echo | chroot /cell socat -t5 -T5 - UDP4:${await addressOf("first")}:53`,
      );
    await eventually("an answer by UDP", async () => (await answer()).trim() === "one", 60_000);
  });

  it("lead SCTP", async () => {
    const address = `SCTP4:${await addressOf("first")}:53`;
    const talk = "echo asked; read answer; echo $answer >&2";
    const answer = async (): Promise<string> =>
      await within("client", `chroot /cell socat -T5 ${address} SYSTEM:'${talk}'`);
    await eventually("an answer by SCTP", async () => (await answer()).trim() === "asked one");
  });

  it("lead a pod to itself", async () => {
    assert.equal(await ask("one", "first"), "one");
  });

  it("lead to the API server", async () => {
    const script =
      "nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo open";
    assert.equal((await within("client", script)).trim(), "open");
  });

  it("have names", async () => {
    assert.equal((await within("client", "wget -qT9 -O- http://first/")).trim(), "one");
  });

  it("refuse at once if they have no endpoints", async () => {
    const said = await within("client", `nc -w 20 ${await addressOf("empty")} 80 </dev/null`);
    assert.match(said, /Connection refused/);
    const why = /^2: [^]*No pod has its selector's labels name=empty[^]*refused at once/;
    assert.match(await explain("client", "empty"), why);
  });

  it("keep a client at its endpoint with session affinity", async () => {
    assert.equal((await servers("sticky", 12)).size, 1);
  });

  it("lose no request while their endpoints change", async () => {
    const url = `http://${await addressOf("first")}/`;
    const loop = `until [ -e /enough ]; do wget -qT5 -O- ${url} || echo failed; sleep 0.1; done`;
    const asking = within("client", loop);
    for (const name of ["two", "one", "two", "one"]) {
      await select(name);
      await eventually(name, async () => (await ask("client", "first")) === name);
    }
    await within("client", "touch /enough");
    const said = (await asking).trim().split("\n");
    assert.deepEqual(new Set(said), new Set(["one", "two"]));
  });

  it("leave host ports, which lead to the pod from everywhere", async () => {
    const { url, address } = await hostPort();
    assert.equal((await (await fetch(url)).text()).trim(), "one");
    for (const from of ["client", "one"])
      assert.equal((await within(from, `wget -qT3 -O- ${url}`)).trim(), "one");
    const answer = async (): Promise<string> =>
      await within("client", `echo | chroot /cell socat -t5 -T5 - UDP4:${address}:15300`);
    await eventually("an answer by UDP", async () => (await answer()).trim() === "one", 60_000);
  });

  it("answer at their NodePorts on this computer", async () => {
    const path = "jsonpath={.spec.ports[*].nodePort}";
    const ports = await kube.ok("get", "service", "first", "-o", path);
    const [tcp, udp] = ports.split(" ");
    for (const address of ["127.0.0.1", own.hostAddress]) {
      const page = await fetch(`http://${address}:${tcp}/`);
      assert.equal((await page.text()).trim(), "one");
    }
    const answer = async (): Promise<string> =>
      (await run("socat", ["-t5", "-T5", "-", `UDP4:127.0.0.1:${udp}`], { input: "\n" })).stdout;
    await eventually("an answer by UDP", async () => (await answer()).trim() === "one", 60_000);
  });

  it("answer a load balancer's health checks on this computer", async () => {
    const path = "jsonpath={.spec.healthCheckNodePort}";
    const port = await kube.ok("get", "service", "balanced", "-o", path);
    const check = async (): Promise<string> => {
      const answer = await fetch(`http://127.0.0.1:${port}/healthz`);
      const { localEndpoints } = (await answer.json()) as { localEndpoints: number };
      return `${answer.status} ${localEndpoints}`;
    };
    await eventually("both endpoints", async () => (await check()) === "200 2", 30_000);
    const selector = JSON.stringify({ spec: { selector: { app: "empty" } } });
    await kube.ok("patch", "service", "balanced", "--patch", selector);
    await eventually("no endpoint", async () => (await check()) === "503 0", 30_000);
  });

  it("have a pod refused that was bound in spite of its host port", async () => {
    const second = shellPod("second", "sleep 1000", { nodeName: own.name }, hostPorts);
    await kube.apply(second);
    const shows = async (): Promise<string> =>
      await kube.ok("get", "pod", "second", "-o", "jsonpath={.status.phase} {.status.reason}");
    await eventually("the refusal", async () => (await shows()) === "Failed NodePorts", 30_000);
    await kube.ok("delete", "pod", "second");
  });

  it("obey policies: closed by default, open for the peers that one allows", async () => {
    await kube.apply(policy("closed", { policyTypes: ["Ingress"] }));
    await eventually(
      "the policy",
      async () => (await ask("client", "first")).includes("timed out"),
      30_000,
    );
    const closed =
      /^2: [^]*pod services\/one may not be reached by pod services\/client[^]* closed /;
    assert.match(await explain("client", "first:80"), closed);
    const allowed = {
      ingress: [
        {
          from: [{ podSelector: { matchLabels: { app: "client" } } }],
          ports: [{ port: 8080 }],
        },
      ],
    };
    await kube.apply(policy("clients", allowed));
    await eventually("the client", async () => (await ask("client", "first")) === "one", 30_000);
    assert.match(await ask("two", "first"), /timed out/);
    assert.equal(await ask("one", "first"), "one");
    const { url } = await hostPort();
    assert.match(await within("two", `wget -qT3 -O- ${url}`), /timed out/);
    assert.equal((await within("client", `wget -qT3 -O- ${url}`)).trim(), "one");
    const open = /^0: [^]*allowed by NetworkPolicy clients \(ingress of pod services\/one\)/;
    assert.match(await explain("client", "first:80"), open);
    assert.match(
      await explain("two", "first:80"),
      /^2: [^]*NetworkPolicy [^]*, NetworkPolicy [^]* restrict /,
    );
    assert.match(await explain("one", "first:80"), /^0: [^]*A pod always reaches itself/);
  });

  it("obey policies of administrators before those of namespaces, and forget them with their API", async () => {
    await kube.apply(policyDefinition(kind));
    await kube.ok("wait", "--for=condition=Established", crd, "--timeout=60s");
    const pods = (app: string): object => podsOf("services", { app });
    const rule = (action: string, app: string) => ({ action, from: [pods(app)] });
    const spec = {
      priority: 5,
      subject: pods("web"),
      ingress: [rule("Allow", "web"), rule("Deny", "client")],
    };
    await eventually(
      "a policy",
      async () => (await kube.tryApply(adminPolicy(kind, "swapped", spec))).status === 0,
    );
    await eventually("one that is allowed", async () => (await ask("two", "first")) === "one");
    assert.match(await ask("client", "first"), /timed out/);
    const denied = /^2: [^]*a rule of AdminNetworkPolicy swapped denies it/;
    assert.match(await explain("client", "first:80"), denied);
    const allowed = /^0: [^]*AdminNetworkPolicy swapped \(ingress of pod services\/one\)/;
    assert.match(await explain("two", "first:80"), allowed);
    await kube.ok("delete", crd, "--timeout=60s");
    await eventually("no policy", async () => (await ask("client", "first")) === "one");
    assert.match(await ask("two", "first"), /timed out/);
  });

  it("stay in force while kip is killed, and follow again after its start", async () => {
    const url = `http://${await addressOf("first")}/`;
    for (const name of ["client", "two"]) await within(name, `echo ${url} >/url`);
    process.kill(providerProcess(), "SIGKILL");
    const answers = async (name: string): Promise<readonly string[]> => {
      const { status, stdout } = await kube.kubectl("exec", name, "--", "cat", "/answers");
      return status === 0 ? stdout.trim().split("\n") : [];
    };
    await eventually("kip again", async () => (await answers("client")).length > 10);
    assert.deepEqual(new Set(await answers("client")), new Set(["one"]));
    const refused = async (): Promise<readonly string[]> =>
      (await answers("two")).filter((line) => line !== "" && !line.includes("timed out"));
    await eventually("a request that was refused", async () => (await refused()).length > 0);
    assert.deepEqual(new Set(await refused()), new Set(["failed"]));
    await select("two");
    await eventually("the other server", async () => (await ask("client", "first")) === "two");
    await select("one");
    await kube.ok("delete", "networkpolicy", "--all");
    await eventually("all peers", async () => (await ask("two", "first")) === "one", 60_000);
  });

  /** The address of the host port of pod `one`. */
  async function hostPort(): Promise<{ readonly url: string; readonly address: string }> {
    const path = "jsonpath={.status.hostIP}";
    const address = await kube.ok("get", "pod", "one", "-o", path);
    return { url: `http://${address}:18080/`, address };
  }

  /** Makes the Service `first` select this pod. */
  async function select(name: string): Promise<void> {
    const patch = JSON.stringify({ spec: { selector: { name } } });
    await kube.ok("patch", "service", "first", "-p", patch);
  }
});
