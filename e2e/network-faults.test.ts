import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { isWholeRun } from "@kip/testing";
import { cluster, eventually, providerProcess, shellPod, type Cluster } from "./cluster.ts";

/**
 * Sends requests to the Service `web` without a pause, and keeps a connection to it, on which it sends a line five times a
 * second.
 */
const asking = `
ticks() { while :; do echo tick; sleep 0.2; done; }
while [ ! -s /address ]; do sleep 0.2; done
(ticks | chroot /cell socat - "TCP4:$(cat /address):7" >>/echoed; echo ended >>/echoed) &
while :; do wget -qT3 -O- "http://$(cat /address)/" >>/answers || echo failed >>/answers; done`;

const serve = `
chroot /cell socat TCP4-LISTEN:5307,fork SYSTEM:cat &
mkdir -p /www; hostname >/www/index.html; exec httpd -f -p 8080 -h /www`;

/**
 * Kills the cell's agent. A pod's processes do not see those of the cell. So the cell's kernel does it, which runs a program
 * after a process has dumped its memory.
 */
const killAgent = `
cat >/cell/kill-agent <<'end'
#!/bin/sh
for each in /proc/[0-9]*; do
  case "$(tr '\\0' ' ' <$each/cmdline)" in *itzo.js*) kill -KILL "\${each#/proc/}";; esac
done
end
chmod 755 /cell/kill-agent
echo '|/kill-agent' >/proc/sys/kernel/core_pattern
sh -c 'kill -SEGV $$'; true`;

/** A pattern that does not match its own command line. */
const agentProcess = "grep -l 'itzo[.]js' /cell-processes/[0-9]*/cmdline";

function pod(name: string, script: string): object {
  const volumes = [
    { name: "cell", hostPath: { path: "/" } },
    { name: "processes", hostPath: { path: "/proc" } },
  ];
  const volumeMounts = [
    { name: "cell", mountPath: "/cell" },
    { name: "processes", mountPath: "/cell-processes" },
  ];
  const container = { volumeMounts, securityContext: { privileged: true } };
  const made = shellPod(name, script, { volumes }, container) as { metadata: object };
  return { ...made, metadata: { ...made.metadata, labels: { name } } };
}

const web = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "web" },
  spec: {
    selector: { name: "one" },
    ports: [
      { name: "http", port: 80, targetPort: 8080 },
      { name: "echo", port: 7, targetPort: 5307 },
    ],
  },
};

describe(
  "a Service under requests, and a connection through it",
  { skip: !isWholeRun && "takes minutes: npm run test:e2e:all" },
  () => {
    let kube: Cluster;
    before(async () => {
      kube = await cluster("network-faults");
      await kube.apply(pod("one", serve), pod("two", serve), pod("client", asking), web);
      const pods = ["pod/one", "pod/two", "pod/client"];
      await kube.ok("wait", "--for=condition=Ready", ...pods, "--timeout=240s");
      const address = await kube.ok("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}");
      await kube.ok("exec", "client", "--", "sh", "-c", `echo ${address} >/address`);
      await eventually("answers", async () => (await lines("/answers")).length > 10);
    });
    after(async () => {
      await kube.ok("delete", "networkpolicy", "--all");
      await kube.ok("delete", "pod", "--all", "--timeout=120s");
    });

    /** The lines of a file of the client. Empty while its agent or kip is away. */
    const lines = async (file: string): Promise<readonly string[]> => {
      const { status, stdout } = await kube.kubectl("exec", "client", "--", "cat", file);
      return status === 0 ? stdout.trim().split("\n") : [];
    };
    const agent = async (): Promise<string> =>
      (await kube.kubectl("exec", "client", "--", "sh", "-c", agentProcess)).stdout.trim();
    const select = async (name: string): Promise<void> =>
      void (await kube.ok(
        "patch",
        "service",
        "web",
        "-p",
        JSON.stringify({ spec: { selector: { name } } }),
      ));
    /** Checks that the connection still works. */
    const isHeld = async (): Promise<void> => {
      const before = (await lines("/echoed")).length;
      await eventually(
        "more on the connection",
        async () => (await lines("/echoed")).length > before,
      );
      assert.deepEqual(new Set(await lines("/echoed")), new Set(["tick"]));
    };

    it("are found by name under the usual policy that closes egress but for names and their peers", async () => {
      const names = {
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
        podSelector: { matchLabels: { "k8s-app": "kube-dns" } },
      };
      const ports = [
        { port: 53, protocol: "UDP" },
        { port: 53, protocol: "TCP" },
      ];
      await kube.apply({
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        metadata: { name: "closed" },
        spec: {
          podSelector: { matchLabels: { name: "client" } },
          policyTypes: ["Egress"],
          egress: [{ to: [names], ports }, { to: [{ podSelector: {} }] }],
        },
      });
      const within = async (script: string): Promise<string> =>
        await kube.ok("exec", "client", "--", "sh", "-c", `${script} 2>&1; true`);
      const api =
        "nc -w 2 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo open";
      await eventually("the policy", async () => !(await within(api)).includes("open"));
      assert.match(await within("wget -qT9 -O- http://web/"), /^(one|two)$/m);
      await kube.ok("delete", "networkpolicy", "closed");
    });

    it("fail in nothing when the agent of the client's cell is killed, and follow changes after its start", async () => {
      const first = await agent();
      assert.match(first, /^\/cell-processes\/\d+\/cmdline$/);
      await kube.kubectl("exec", "client", "--", "sh", "-c", killAgent);
      await eventually("another agent", async () => ![first, ""].includes(await agent()));
      await select("two");
      await eventually("the other server", async () => (await lines("/answers")).includes("two"));
      assert.deepEqual(new Set(await lines("/answers")), new Set(["one", "two"]));
      await isHeld();
    });

    it("go to the endpoints of before while kip is away, and to others after its start", async () => {
      const stopped = providerProcess();
      process.kill(stopped, "SIGSTOP");
      await select("one");
      const address = await kube.ok("get", "pod", "one", "-o", "jsonpath={.status.podIP}");
      const slice = ["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "json"];
      await eventually("the endpoint", async () =>
        (await kube.ok(...slice)).includes(`"${address}"`),
      );
      process.kill(stopped, "SIGKILL");
      await eventually("the first server", async () => (await lines("/answers")).at(-1) === "one");
      const answers = await lines("/answers");
      assert.deepEqual(new Set(answers), new Set(["one", "two"]));
      // One switch from one to two, and one back.
      const changes = answers.filter((line, i) => i > 0 && line !== answers[i - 1]);
      assert.deepEqual(changes, ["two", "one"]);
      await isHeld();
    });
  },
);
