// Fields of pods as seen inside of a container. One pod has many of them. Unit tests only check that these fields reach the
// cell.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { nodePod } from "./cell-node.ts";
import { cluster as own } from "./cluster-number.ts";
import { cluster, eventually, run, type Cluster } from "./cluster.ts";

const namespace = "fields";
const image = "kip.local/demo:latest";

interface Status {
  readonly metadata: { readonly uid: string };
  readonly status: {
    readonly podIP: string;
    readonly hostIP: string;
    readonly containerStatuses: readonly {
      readonly name: string;
      readonly restartCount: number;
      readonly state: { readonly terminated?: { readonly message?: string } };
    }[];
  };
}

const field = (name: string, fieldPath: string): object => ({
  name,
  valueFrom: { fieldRef: { fieldPath } },
});
const resource = (name: string, which: string, divisor: string): object => ({
  name,
  valueFrom: { resourceFieldRef: { resource: which, divisor } },
});

const environment = [
  { name: "GREETING", value: "hello $(POD)" },
  field("POD", "metadata.name"),
  field("SPACE", "metadata.namespace"),
  field("POD_UID", "metadata.uid"),
  field("APP", "metadata.labels['app']"),
  field("NOTE", "metadata.annotations['example.com/note']"),
  field("NODE", "spec.nodeName"),
  field("ACCOUNT", "spec.serviceAccountName"),
  field("HOST_IP", "status.hostIP"),
  field("POD_IP", "status.podIP"),
  field("POD_IPS", "status.podIPs"),
  resource("CPU", "limits.cpu", "1m"),
  resource("MEMORY", "requests.memory", "1Mi"),
  { name: "COLOUR", valueFrom: { configMapKeyRef: { name: "settings", key: "colour" } } },
  { name: "ABSENT", valueFrom: { secretKeyRef: { name: "no", key: "no", optional: true } } },
];

const volumes = [
  { name: "scratch", emptyDir: {} },
  { name: "config", configMap: { name: "settings", defaultMode: 0o440 } },
  {
    name: "secret",
    secret: {
      secretName: "login",
      defaultMode: 0o400,
      items: [{ key: "password", path: "deep/word", mode: 0o604 }],
    },
  },
  {
    name: "downward",
    downwardAPI: {
      defaultMode: 0o444,
      items: [
        { path: "labels", fieldRef: { fieldPath: "metadata.labels" } },
        {
          path: "cpu",
          mode: 0o600,
          resourceFieldRef: { containerName: "main", resource: "limits.cpu", divisor: "1m" },
        },
      ],
    },
  },
  {
    name: "projected",
    projected: {
      defaultMode: 0o640,
      sources: [
        { configMap: { name: "settings", items: [{ key: "colour", path: "of/colour" }] } },
        { secret: { name: "login" } },
        { downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
        { serviceAccountToken: { path: "token", audience: "vault", expirationSeconds: 3600 } },
      ],
    },
  },
  { name: "made", hostPath: { path: "/var/fields/folder", type: "DirectoryOrCreate" } },
  { name: "file", hostPath: { path: "/var/fields-file", type: "FileOrCreate" } },
  { name: "there", hostPath: { path: "/usr/lib/kip", type: "Directory" } },
  { name: "device", hostPath: { path: "/dev/null", type: "CharDevice" } },
];

/** Mounts of the main container. Each is at `/v` and the name of its volume. */
const mounts = [
  ...volumes.map(({ name }) => ({ name, mountPath: `/v/${name}` })),
  { name: "scratch", mountPath: "/own", subPathExpr: "$(POD)/$(APP)" },
];

/** What the test checks, printed as a line `name=answer` for each question. */
const questions: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    (environment as { readonly name: string }[]).map(({ name }) => [name, `printf %s "$${name}"`]),
  ),
  links: "env | grep -c ^NEIGHBOUR_; true",
  prefixed: 'printf %s "$SET_colour"',
  arguments: 'printf "%s," "$@"',
  folder: "pwd",
  ids: 'id -u; id -g; id -G | tr " " "\\n" | sort -n',
  capabilities: "grep -h ^CapEff /proc/self/status | cut -f2",
  escalation: "grep -h ^NoNewPrivs /proc/self/status | cut -f2",
  root: "touch /new 2>&1 | grep -o Read-only",
  hosts: "grep alias.example /etc/hosts | tr '\\t' ' '",
  resolver: "grep -v '^#' /etc/resolv.conf | sort",
  name: "hostname",
  sysctl:
    "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/ipv4/ping_group_range /proc/sys/kernel/shm_rmid_forced /proc/sys/net/core/somaxconn /proc/sys/kernel/sem | tr '\\t' ' '",
  neighbours: "ps | grep -c '[s]leep 4321'",
  own: "cat /v/scratch/fields/shop/here",
  config: "stat -L -c %a /v/config/colour; cat /v/config/colour",
  secret: "stat -L -c %a /v/secret/deep/word; cat /v/secret/deep/word; ls /v/secret",
  downward: "stat -L -c %a /v/downward/labels /v/downward/cpu; cat /v/downward/labels",
  downwardCpu: "cat /v/downward/cpu",
  projected: "cd /v/projected; stat -L -c %a of/colour password name; cat of/colour password name",
  token: "cut -d. -f2 /v/projected/token",
  tokenAccess: "stat -L -c '%a %u %g' /v/projected/token",
  hostPaths:
    "test -d /v/made && test -f /v/file && test -e /v/there/node && test -c /v/device && echo all",
};

async function ask(kube: Cluster): Promise<ReadonlyMap<string, string>> {
  const script = Object.entries(questions)
    .map(([name, question]) => `echo "=${name}"; (${question}) 2>&1; echo`)
    .join("\n");
  const text = await kube.ok("exec", "fields", "-c", "main", "--", "sh", "-c", script, "sh", "-x");
  return new Map(
    text
      .split(/^=/m)
      .slice(1)
      .map((part) => {
        const at = part.indexOf("\n");
        return [part.slice(0, at), part.slice(at + 1).trim()];
      }),
  );
}

/** Records the request, and responds once. */
const answer =
  "printf 'HTTP/1.0 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n' | nc -l -p 8081 >/tmp/request";

const serve = "mkdir -p /tmp/www; echo fine > /tmp/www/index.html; httpd -p 8080 -h /tmp/www";

const fields = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    name: "fields",
    labels: { app: "shop" },
    annotations: { "example.com/note": 'a "note"' },
  },
  spec: {
    terminationGracePeriodSeconds: 20,
    enableServiceLinks: false,
    shareProcessNamespace: true,
    hostname: "front",
    subdomain: "web",
    hostAliases: [{ ip: "192.0.2.7", hostnames: ["alias.example", "other.example"] }],
    dnsPolicy: "None",
    dnsConfig: {
      nameservers: ["192.0.2.53"],
      searches: ["example.org"],
      options: [{ name: "ndots", value: "3" }, { name: "edns0" }],
    },
    securityContext: {
      // Both containers override it.
      runAsUser: 1005,
      runAsGroup: 3000,
      fsGroup: 2000,
      supplementalGroups: [4000],
      sysctls: [
        { name: "net.ipv4.ip_unprivileged_port_start", value: "80" },
        { name: "kernel.shm_rmid_forced", value: "1" },
        { name: "net.core.somaxconn", value: "1234" },
        { name: "kernel/sem", value: "250 32000 100 200" },
      ],
    },
    volumes: [...volumes, { name: "tmp", emptyDir: { medium: "Memory" } }],
    containers: [
      {
        name: "main",
        image,
        command: ["sh", "-c", `echo written > /own/here; ${serve}; while :; do sleep 1; done`],
        args: ["sh", "$(POD)", "$$(POD)"],
        workingDir: "/tmp",
        env: environment,
        envFrom: [{ prefix: "SET_", configMapRef: { name: "settings" } }],
        ports: [{ name: "page", containerPort: 8080 }],
        resources: { limits: { cpu: "300m", memory: "64Mi" } },
        startupProbe: {
          tcpSocket: { port: "page" },
          periodSeconds: 1,
          timeoutSeconds: 10,
          failureThreshold: 60,
        },
        livenessProbe: { tcpSocket: { port: 8080 }, timeoutSeconds: 20 },
        readinessProbe: { httpGet: { path: "/index.html", port: "page" }, timeoutSeconds: 20 },
        lifecycle: {
          postStart: { sleep: { seconds: 1 } },
          preStop: { sleep: { seconds: 4 } },
        },
        securityContext: {
          runAsUser: 1000,
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
        volumeMounts: [...mounts, { name: "tmp", mountPath: "/tmp" }],
      },
      {
        name: "other",
        image,
        command: ["sh", "-c", `${answer}; exec sleep 4321`],
        startupProbe: {
          httpGet: {
            port: 8081,
            path: "/as?this=one",
            httpHeaders: [
              { name: "Host", value: "shop.example" },
              { name: "X-Asked", value: "first" },
              { name: "X-Asked", value: "second" },
            ],
          },
          periodSeconds: 2,
          timeoutSeconds: 20,
          failureThreshold: 60,
        },
        securityContext: { runAsUser: 1000, runAsGroup: 3001 },
        volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
      },
    ],
  },
};

describe("fields of a pod, seen from inside", () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster(namespace);
    await kube.ok("create", "configmap", "settings", "--from-literal=colour=blue");
    await kube.ok("create", "secret", "generic", "login", "--from-literal=password=open");
    await kube.ok("create", "service", "clusterip", "neighbour", "--tcp=80:80");
  });

  it("hold for environment, volumes, users, kernel, names, probes and hooks", async () => {
    await kube.apply(fields);
    await kube.ok("wait", "--for=condition=Ready", "pod/fields", "--timeout=240s");
    const pod = JSON.parse(await kube.ok("get", "pod", "fields", "-o", "json")) as Status;
    const answers = await ask(kube);
    const { podIP, hostIP } = pod.status;
    const payload = Buffer.from(answers.get("token") ?? "", "base64url").toString();
    assert.deepEqual(
      Object.fromEntries([...answers, ["token", payload.includes('"aud":["vault"]')]]),
      {
        GREETING: "hello $(POD)",
        POD: "fields",
        SPACE: namespace,
        POD_UID: pod.metadata.uid,
        APP: "shop",
        NOTE: 'a "note"',
        NODE: own.name,
        ACCOUNT: "default",
        HOST_IP: hostIP,
        POD_IP: podIP,
        POD_IPS: podIP,
        CPU: "300",
        MEMORY: "64",
        COLOUR: "blue",
        ABSENT: "",
        links: "0",
        prefixed: "blue",
        arguments: "-x,",
        folder: "/tmp",
        ids: "1000\n3000\n2000\n3000\n4000",
        capabilities: "0000000000000000",
        escalation: "1",
        root: "Read-only",
        hosts: "192.0.2.7 alias.example other.example",
        resolver: "nameserver 192.0.2.53\noptions ndots:3 edns0\nsearch example.org",
        name: "front",
        sysctl: "80\n0 2147483647\n1\n1234\n250 32000 100 200",
        neighbours: "1",
        own: "written",
        config: "440\nblue",
        secret: "644\nopendeep",
        downward: '444\n640\napp="shop"',
        downwardCpu: "300",
        projected: "640\n640\n640\nblueopenfields",
        token: true,
        tokenAccess: "640 1000 2000",
        hostPaths: "all",
      },
    );
    const line = await kube.ok(
      "exec",
      "fields",
      "-c",
      "main",
      "--",
      "sh",
      "-c",
      "cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '",
    );
    assert.match(line, /sh fields \$\(POD\) /);
    const others = [
      "exec",
      "fields",
      "-c",
      "other",
      "--",
      "sh",
      "-c",
      "id -u; id -g; cat /tmp/request",
    ];
    const [user, group, request, ...headers] = (await kube.ok(...others)).trim().split(/\r?\n/);
    assert.deepEqual([user, group, request], ["1000", "3001", "GET /as?this=one HTTP/1.1"]);
    for (const header of ["host: shop.example", "x-asked: first", "x-asked: second"])
      assert.ok(headers.map((one) => one.toLowerCase()).includes(header), headers.join());
    assert.ok(pod.status.containerStatuses.every(({ restartCount }) => restartCount === 0));
    // The hook delays the stop signal.
    const began = performance.now();
    await kube.ok("delete", "pod", "fields");
    assert.ok(performance.now() - began >= 4000);
  });

  it("hold for a probe by gRPC, which asks for its service", async () => {
    const grpc = (service: string): object => ({ port: 9090, service });
    const timing = { periodSeconds: 2, timeoutSeconds: 20, failureThreshold: 30 };
    await kube.apply(
      nodePod("health", "health-server.ts", {
        env: { SERVICE: "shop" },
        container: {
          startupProbe: { grpc: grpc("shop"), ...timing },
          readinessProbe: { grpc: grpc("shop"), ...timing },
          ports: [{ name: "health", containerPort: 9090 }],
        },
      }),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/health", "--timeout=240s");
    assert.match(await kube.ok("logs", "health"), /asked for shop/);
  });

  it("hold for the deadline of a pod that runs", async () => {
    await kube.ok("patch", "pod", "health", "-p", '{"spec":{"activeDeadlineSeconds":1}}');
    await kube.ok("wait", "--for=jsonpath={.status.phase}=Failed", "pod/health", "--timeout=120s");
    const told = "jsonpath={.status.reason}: {.status.message}";
    assert.equal(
      await kube.ok("get", "pod", "health", "-o", told),
      "DeadlineExceeded: Pod was active on the node longer than the specified deadline",
    );
    const ended = "jsonpath={.status.containerStatuses[0].state.terminated.finishedAt}";
    assert.notEqual(await kube.ok("get", "pod", "health", "-o", ended), "");
    await kube.ok("delete", "pod", "health", "--wait=false");
  });

  it("hold for the message of a container's end, from its file or the end of its log", async () => {
    const ends = (name: string, script: string, more: object = {}): object => ({
      name,
      image,
      command: ["sh", "-c", script],
      ...more,
    });
    const policy = { terminationMessagePolicy: "FallbackToLogsOnError" };
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "ends" },
      spec: {
        restartPolicy: "Never",
        terminationGracePeriodSeconds: 1,
        containers: [
          ends("file", "echo last words > /tmp/end; exit 1", {
            terminationMessagePath: "/tmp/end",
          }),
          ends("log", "echo from the log; exit 1", policy),
          ends("fine", "echo from the log", policy),
          ends("links", 'printf %s "$NEIGHBOUR_SERVICE_PORT" > /dev/termination-log'),
        ],
      },
    });
    let messages: Readonly<Record<string, string | undefined>> = {};
    await eventually("the end of all containers", async () => {
      const pod = JSON.parse(await kube.ok("get", "pod", "ends", "-o", "json")) as Partial<Status>;
      const { containerStatuses = [] } = pod.status ?? {};
      const ended = containerStatuses.flatMap(({ name, state }) =>
        state.terminated ? [[name, state.terminated.message] as const] : [],
      );
      messages = Object.fromEntries(ended);
      return ended.length === 4;
    });
    assert.deepEqual(messages, {
      file: "last words\n",
      log: "from the log\n",
      fine: undefined,
      links: "80",
    });
    await kube.ok("delete", "pod", "ends", "--wait=false");
  });

  it("hold for a terminal, and for an input that ends with its first client", async () => {
    const toMessage = (name: string, script: string, more: object): object => ({
      name,
      image,
      command: ["sh", "-c", `${script} >/dev/termination-log`],
      stdin: true,
      ...more,
    });
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "typed" },
      spec: {
        restartPolicy: "Never",
        terminationGracePeriodSeconds: 1,
        containers: [
          toMessage("screen", "test -t 0 && printf tty", { tty: true }),
          toMessage("input", "cat", { stdinOnce: true }),
        ],
      },
    });
    const ofInput = async (state: string): Promise<string> => {
      const path = `{.status.containerStatuses[?(@.name=="input")].state.${state}}`;
      return await kube.ok("get", "pod", "typed", "-o", `jsonpath=${path}`);
    };
    await eventually("a container that reads", async () => (await ofInput("running")) !== "");
    const client = ["--kubeconfig", kube.kubeconfig, "-n", namespace, "attach", "-i", "typed"];
    await run(kube.kubectlPath, [...client, "-c", "input"], { input: "from a client" });
    await kube.ok(
      "wait",
      "--for=jsonpath={.status.phase}=Succeeded",
      "pod/typed",
      "--timeout=120s",
    );
    assert.equal(await ofInput("terminated.message"), "from a client");
    const screen = '{.status.containerStatuses[?(@.name=="screen")].state.terminated.message}';
    assert.equal(await kube.ok("get", "pod", "typed", "-o", `jsonpath=${screen}`), "tty");
    await kube.ok("delete", "pod", "typed", "--wait=false");
  });
});
