import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import { isWholeRun } from "@kip/testing";
import { cluster, eventually, shellPod, type Cluster } from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const namespace = "changes";
const serve = "mkdir -p /www; hostname >/www/index.html; exec httpd -f -p 8080 -h /www";
/** A condition that something other than the kubelet sets. */
const gate = "kip.test/open";

function pod(name: string, script: string, spec: object = {}): object {
  const ofCell = { volumes: [{ name: "cell", hostPath: { path: "/" } }] };
  const mounts = { volumeMounts: [{ name: "cell", mountPath: "/cell" }] };
  const made = shellPod(name, script, { ...ofCell, ...spec }, mounts) as { metadata: object };
  return { ...made, metadata: { ...made.metadata, labels: { app: "web", name } } };
}

function service(name: string, spec: object): object {
  const ports = [{ name: "http", port: 80, targetPort: 8080 }];
  return { apiVersion: "v1", kind: "Service", metadata: { name }, spec: { ports, ...spec } };
}

describe(
  "Services that change",
  { skip: !isWholeRun && "takes minutes: npm run test:e2e:all" },
  () => {
    let kube: Cluster;
    before(async () => {
      kube = await cluster(namespace);
      const gated = { readinessGates: [{ conditionType: gate }] };
      await kube.apply(pod("one", serve), pod("two", serve, gated), {
        ...shellPod("client", "exec sleep 100000"),
      });
      const conditions = [
        ["--for=condition=Ready", "pod/one", "pod/client"],
        ["--for=condition=ContainersReady", "pod/two"],
      ];
      for (const words of conditions) await kube.ok("wait", ...words, "--timeout=240s");
    });
    after(async () => {
      await kube.ok("delete", "pod", "--all", "--timeout=120s");
    });

    const show = async (what: string, name: string, field: string): Promise<string> =>
      await kube.ok("get", what, name, "-o", `jsonpath={${field}}`);
    const within = async (script: string): Promise<string> =>
      (await kube.ok("exec", "client", "--", "sh", "-c", `${script} 2>&1; true`)).trim();
    const ask = async (where: string): Promise<string> =>
      await within(`wget -qT3 -O- http://${where}/`);
    const addressOf = async (name: string): Promise<string> =>
      await show("service", name, ".spec.clusterIP");
    const patch = async (name: string, spec: object): Promise<void> => {
      await kube.ok("patch", "service", name, "-p", JSON.stringify({ spec }));
    };
    /** Waits until this number of requests gets exactly these answers. */
    const answered = async (where: string, names: readonly string[], count = 12): Promise<void> => {
      const loop = `for i in $(seq ${count}); do wget -qT3 -O- http://${where}/; done`;
      await eventually(`${where} answered by ${names.join(", ")}`, async () => {
        const said = new Set((await within(loop)).split("\n"));
        return said.size === names.length && names.every((name) => said.has(name));
      });
    };

    it("lead to a pod when its readiness gate opens, and headless ones before if they publish it", async () => {
      const selector = { app: "web" };
      await kube.apply(
        service("web", { selector }),
        service("all", { selector, clusterIP: "None", publishNotReadyAddresses: true }),
      );
      const [one, two] = [
        await show("pod", "one", ".status.podIP"),
        await show("pod", "two", ".status.podIP"),
      ];
      const names = async (name: string): Promise<string> =>
        await within(`nslookup ${name}.${namespace}.svc.cluster.local`);
      await eventually("both addresses", async () => {
        const said = await names("all");
        return said.includes(`: ${one}`) && said.includes(`: ${two}`);
      });
      await answered(await addressOf("web"), ["one"]);
      const status = { conditions: [{ type: gate, status: "True" }] };
      await kube.ok(
        "patch",
        "pod",
        "two",
        "--subresource=status",
        "-p",
        JSON.stringify({ status }),
      );
      await answered(await addressOf("web"), ["one", "two"]);
    });

    it("take session affinity while they are in use, and give it up", async () => {
      const address = await addressOf("web");
      await patch("web", { sessionAffinity: "ClientIP" });
      const servers = async (): Promise<number> =>
        new Set(
          (await within(`for i in $(seq 12); do wget -qT3 -O- http://${address}/; done`)).split(
            "\n",
          ),
        ).size;
      await eventually("one server", async () => (await servers()) === 1);
      await patch("web", { sessionAffinity: "None" });
      await answered(address, ["one", "two"]);
    });

    it("are made by kubectl expose, and change their type", async () => {
      await kube.ok("expose", "pod", "one", "--name=exposed", "--port=80", "--target-port=8080");
      const address = await addressOf("exposed");
      await answered(address, ["one"], 1);
      await patch("exposed", { type: "NodePort" });
      const node = await show("pod", "one", ".status.hostIP");
      const nodePort = `${node}:${await show("service", "exposed", ".spec.ports[0].nodePort")}`;
      await answered(nodePort, ["one"], 1);
      const external = `web.${namespace}.svc.cluster.local`;
      await patch("exposed", {
        type: "ExternalName",
        externalName: external,
        clusterIP: null,
        clusterIPs: null,
      });
      await eventually("the name", async () =>
        (await within(`nslookup exposed.${namespace}.svc.cluster.local`)).includes(external),
      );
      for (const where of [address, nodePort])
        await eventually(
          `no answer of ${where}`,
          async () => !/^(one|two)$/.test(await ask(where)),
        );
      await patch("exposed", { type: "ClusterIP", externalName: null });
      await answered(await addressOf("exposed"), ["one"], 1);
    });

    it("are deleted, and made again with the same address for other pods", async () => {
      const address = await addressOf("exposed");
      await kube.ok("delete", "service", "exposed");
      await eventually("no answer", async () => (await ask(address)) !== "one");
      await kube.apply(service("again", { clusterIP: address, selector: { name: "two" } }));
      await answered(address, ["two"], 1);
    });

    it("lead to an address outside of the cluster that an EndpointSlice names", async () => {
      const server = createServer((_, response) => response.end("outside\n"));
      server.listen(own.hostPort, own.hostAddress);
      await once(server, "listening");
      try {
        await kube.apply(service("outside", {}), {
          apiVersion: "discovery.k8s.io/v1",
          kind: "EndpointSlice",
          metadata: { name: "outside-1", labels: { "kubernetes.io/service-name": "outside" } },
          addressType: "IPv4",
          ports: [{ name: "http", port: own.hostPort }],
          endpoints: [{ addresses: [own.hostAddress] }],
        });
        await answered("outside", ["outside"], 1);
      } finally {
        server.closeAllConnections();
        server.close();
      }
    });
  },
);
