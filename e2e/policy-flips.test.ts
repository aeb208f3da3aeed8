import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { isWholeRun } from "@kip/testing";
import { nodePod, startProgram } from "./cell-node.ts";
import { cluster, eventually, type Cluster } from "./cluster.ts";

const namespace = "flips";
const serve = `
chroot /cell socat TCP4-LISTEN:9000,fork EXEC:cat &
mkdir -p /www; hostname >/www/index.html; exec httpd -f -p 8080 -h /www`;

/** Number of quick changes in a row. After these the policy stays, and requests are checked. */
const quickFlips = 10;
const rounds = 10;
/**
 * The policy is in force after this number of consecutive requests that agree with it. The same number after that must also
 * agree.
 */
const agreeing = 10;

/** A line from `request-lines.ts`. */
interface Line {
  readonly number?: number;
  readonly isAnswered?: boolean;
  readonly broken?: string;
  readonly echoed?: number;
}

/** Collects the program's lines. */
class Lines {
  readonly requests: boolean[] = [];
  /** Lines about the open connection. */
  readonly others: Line[] = [];

  constructor(child: ChildProcess) {
    assert.ok(child.stdout);
    createInterface({ input: child.stdout }).on("line", (text) => {
      const line = JSON.parse(text) as Line; // the program's format
      if (line.number === undefined) this.others.push(line);
      else this.requests[line.number] = line.isAnswered === true;
    });
  }

  /** Whether `agreeing` requests from this one on have ended. */
  hasAll(from: number): boolean {
    return (
      this.requests.slice(from, from + agreeing).filter((isAnswered) => isAnswered !== undefined)
        .length === agreeing
    );
  }

  /** Whether all of these requests ended as the policy requires. */
  agree(from: number, isOpen: boolean): boolean {
    const some = this.requests.slice(from, from + agreeing);
    return some.length === agreeing && [...some].every((isAnswered) => isAnswered === isOpen);
  }
}

describe(
  "a network policy that changes under load",
  { skip: !isWholeRun && "takes minutes: npm run test:e2e:all" },
  () => {
    let kube: Cluster;
    before(async () => {
      kube = await cluster(namespace);
      const web = nodePod("web", "request-lines.ts", { script: serve, labels: { app: "web" } });
      const ports = [{ name: "http", port: 80, targetPort: 8080 }];
      await kube.apply(
        web,
        nodePod("client", "request-lines.ts", { script: "exec sleep 100000" }),
        {
          apiVersion: "v1",
          kind: "Service",
          metadata: { name: "web" },
          spec: { selector: { app: "web" }, ports },
        },
        policy(true),
      );
      await kube.ok("wait", "--for=condition=Ready", "pod/web", "pod/client", "--timeout=240s");
    });
    after(async () => {
      await kube.ok("delete", "networkpolicy", "--all");
      await kube.ok("delete", "pod", "--all", "--timeout=120s");
    });

    function policy(isOpen: boolean): object {
      return {
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        metadata: { name: "flip" },
        spec: { podSelector: {}, policyTypes: ["Ingress"], ingress: isOpen ? [{}] : [] },
      };
    }

    async function startRequests(): Promise<ChildProcess> {
      const show = async (what: string, field: string): Promise<string> =>
        await kube.ok("get", what, "web", "-o", `jsonpath={${field}}`);
      const url = `http://${await show("service", ".spec.clusterIP")}/`;
      const echo = `ECHO_HOST=${await show("pod", ".status.podIP")} ECHO_PORT=9000`;
      const start = `export ASK_URL=${url} ${echo}; ${startProgram}`;
      const flags = ["--kubeconfig", kube.kubeconfig, "--namespace", namespace];
      return spawn(kube.kubectlPath, [...flags, "exec", "-i", "client", "--", "sh", "-c", start]);
    }

    it("is in force for all requests that begin behind the first ones that it decides", async (t) => {
      const child = await startRequests();
      const lines = new Lines(child);
      try {
        await eventually("answers", () => lines.agree(0, true));
        const settled: number[] = [];
        for (let round = 0; round < rounds; round += 1) {
          const isOpen = round % 2 === 1;
          // The last change is the opposite of the state before the first one.
          for (let flip = 1; flip <= quickFlips + 1; flip += 1)
            await kube.apply(policy((flip % 2 === 1) === isOpen));
          const begun = performance.now();
          const first = lines.requests.length;
          let at = first;
          await eventually(`requests that are ${isOpen ? "answered" : "refused"}`, () => {
            while (at + agreeing <= lines.requests.length && !lines.agree(at, isOpen)) at += 1;
            return lines.agree(at, isOpen);
          });
          settled.push(Math.round(performance.now() - begun));
          const next = at + agreeing;
          await eventually("more requests", () => lines.hasAll(next));
          assert.ok(
            lines.agree(next, isOpen),
            `round ${round}: ${lines.requests.slice(at, next + agreeing).join(" ")}`,
          );
        }
        t.diagnostic(`milliseconds until ${agreeing} requests agree: ${settled.join(", ")}`);
      } finally {
        child.stdin?.end();
        await once(child, "close");
      }
      // The connection that was open before is still open.
      assert.deepEqual(
        lines.others.map(({ broken }) => broken),
        [undefined],
      );
      const [{ echoed = 0 } = {}] = lines.others;
      t.diagnostic(`${lines.requests.length} requests, ${echoed} echoes`);
      assert.ok(echoed > rounds * 10, String(echoed));
    });
  },
);
