import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { before, describe, it } from "node:test";
import { cluster, eventually, machineProcesses, run, shellPod, type Cluster } from "./cluster.ts";

describe("a pod in its own machine", () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster("pods");
    await kube.apply(
      shellPod(
        "bare",
        "echo first; echo second; trap 'echo bye; exit 0' TERM; while :; do sleep 1; done",
      ),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/bare", "--timeout=240s");
  });

  it("shows its logs, whole, in part and with times", async () => {
    assert.equal(await kube.ok("logs", "bare"), "first\nsecond\n");
    assert.equal(await kube.ok("logs", "bare", "--tail=1"), "second\n");
    assert.equal(await kube.ok("logs", "bare", "--tail=0"), "");
    assert.match(
      await kube.ok("logs", "bare", "--timestamps"),
      /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d) first\n/,
    );
    assert.equal(await kube.ok("logs", "bare", "--since=1h", "--limit-bytes=5"), "first");
  });

  it("gives exec's exit codes back", async () => {
    assert.equal((await kube.kubectl("exec", "bare", "--", "true")).status, 0);
    const failed = await kube.kubectl(
      "exec",
      "bare",
      "--",
      "sh",
      "-c",
      "echo out; echo err >&2; exit 3",
    );
    assert.deepEqual([failed.status, failed.stdout], [3, "out\n"]);
    assert.match(failed.stderr, /^err\n/);
  });

  it("takes 10 MB through exec's standard input, whole", async () => {
    const input = randomBytes(10_000_000);
    const args = [
      "--kubeconfig",
      kube.kubeconfig,
      "-n",
      "pods",
      "exec",
      "-i",
      "bare",
      "--",
      "sha256sum",
    ];
    const result = await run(kube.kubectlPath, args, { input });
    assert.equal(result.status, 0, result.stderr);
    assert.equal(result.stdout.split(" ")[0], createHash("sha256").update(input).digest("hex"));
  });

  it("gives exec a terminal and follows its size", async () => {
    // script(1) gives kubectl a terminal, whose size changes while the command runs in the pod.
    const ttyFile = path.join(tmpdir(), `kip-e2e-tty-${process.pid}`);
    // Rows and columns may change one after the other.
    const changed =
      'for i in $(seq 300); do [ "$(stty size)" = "44 122" ] && break; sleep 0.2; done';
    const inPod = `stty size; ${changed}; stty size; exit 7`;
    const exec = [
      kube.kubectlPath,
      "--kubeconfig",
      kube.kubeconfig,
      "-n",
      "pods",
      "exec",
      "-it",
      "bare",
      "--",
      "sh",
      "-c",
      `'${inPod}'`,
    ];
    const child = spawn(
      "script",
      ["-qec", `stty rows 33 cols 101; tty > ${ttyFile}; ${exec.join(" ")}`, "/dev/null"],
      {
        stdio: ["pipe", "pipe", "inherit"],
      },
    );
    const closed = once(child, "close");
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    await eventually("the first size", () => output.includes("33 101"));
    const terminal = readFileSync(ttyFile, "utf8").trim();
    await run("stty", ["-F", terminal, "rows", "44", "cols", "122"]);
    const [code] = (await closed) as [number];
    rmSync(ttyFile);
    assert.match(output, /44 122/);
    assert.equal(code, 7, output);
  });

  it("describes itself as a kubelet's pod does", async () => {
    const text = await kube.ok("describe", "pod", "bare");
    for (const word of [
      "Running",
      "Ready:          True",
      "Started:",
      "Restart Count:  0",
      "Image ID:",
      "Container ID:",
      "Pulling",
      "Pulled",
      "Created",
      "Started",
      "PodScheduled",
      "Initialized",
      "ContainersReady",
      "QoS Class",
    ]) {
      assert.ok(text.includes(word), `"${word}" is missing in\n${text}`);
    }
    const pod = JSON.parse(await kube.ok("get", "pod", "bare", "-o", "json")) as {
      status: { podIP: string; phase: string; qosClass: string };
    };
    assert.match(pod.status.podIP, /^198\.19\./);
    assert.deepEqual([pod.status.phase, pod.status.qosClass], ["Running", "BestEffort"]);
  });

  it("has a Cell that shows type, instance, address and phase", async () => {
    const text = await kube.ok("get", "cells");
    assert.match(text, /POD NAME.*INSTANCE TYPE.*INSTANCE ID.*IP.*PHASE/);
    assert.match(
      text,
      /bare\s+pods\s+kip-e2e(?:-\d)?\s+on-demand\s+local\.\w+\s+\S+\s+198\.19\.\S+\s+Claimed/,
    );
  });

  it("has a Cell that tells its start, can be waited for, and has the labels of its pod", async () => {
    const metadata = { name: "told", labels: { "app.kubernetes.io/name": "told" } };
    await kube.apply({ ...shellPod("told", "sleep 1000"), metadata });
    await kube.ok("wait", "--for=condition=Ready", "pod/told", "--timeout=240s");
    const ofPod = ["-l", "app.kubernetes.io/name=told"];
    await kube.ok("wait", "--for=condition=Claimed", "cell", ...ofPod, "--timeout=60s");
    const text = await kube.ok("describe", "cell", ...ofPod);
    for (const reason of ["InstanceStarted", "InstanceRunning", "AgentAnswers", "PodSent"])
      assert.match(text, new RegExp(`Reason: +${reason}`), text);
    const field = (path: string) => kube.ok("get", "cell", ...ofPod, "-o", `jsonpath={..${path}}`);
    assert.deepEqual(await Promise.all(["status.podName", "status.launchType"].map(field)), [
      "told",
      "On-Demand",
    ]);
    const wide = await kube.ok("get", "cells", ...ofPod, "-o", "wide");
    assert.match(wide, /REASON\s[^]*AgentAnswers/);
    await kube.ok("delete", "pod", "told", "--timeout=120s");
  });

  it("follows its log until the container ends", async () => {
    await kube.apply(
      shellPod("counter", "for i in 1 2 3 4 5; do echo line $i; sleep 1; done", {
        restartPolicy: "Never",
      }),
    );
    await kube.ok(
      "wait",
      "--for=jsonpath={.status.phase}=Running",
      "pod/counter",
      "--timeout=240s",
    );
    assert.equal(
      await kube.ok("logs", "-f", "counter"),
      "line 1\nline 2\nline 3\nline 4\nline 5\n",
    );
    await kube.ok(
      "wait",
      "--for=jsonpath={.status.phase}=Succeeded",
      "pod/counter",
      "--timeout=60s",
    );
    await eventually(
      "the machine of a finished pod to go",
      async () => !(await kube.ok("get", "cells")).includes("counter"),
    );
    assert.match(await kube.ok("logs", "counter"), /^line 1\n/, "logs outlive the machine");
    await kube.ok("delete", "pod", "counter");
  });

  it("shows the log of the run before", async () => {
    await kube.apply(
      shellPod(
        "phoenix",
        "if [ -e /data/again ]; then echo second life; sleep 1000; fi; touch /data/again; echo first life; exit 4",
        { volumes: [{ name: "data", emptyDir: {} }] },
        { volumeMounts: [{ name: "data", mountPath: "/data" }] },
      ),
    );
    await eventually(
      "the restart",
      async () => {
        const state = await kube.ok(
          "get",
          "pod",
          "phoenix",
          "-o",
          "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].state.running}",
        );
        return /^1 .*startedAt/.test(state);
      },
      240_000,
    );
    assert.equal(await kube.ok("logs", "phoenix", "--previous"), "first life\n");
    assert.equal(await kube.ok("logs", "phoenix"), "second life\n");
    const exitCode = await kube.ok(
      "get",
      "pod",
      "phoenix",
      "-o",
      "jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}",
    );
    assert.equal(exitCode, "4");
    await kube.ok("delete", "pod", "phoenix", "--wait=false");
  });

  it("lets two containers talk over localhost", async () => {
    const image = "kip.local/demo:latest";
    await kube.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "pair" },
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [
          {
            name: "server",
            image,
            command: [
              "sh",
              "-c",
              "mkdir /www; echo hello neighbour > /www/index.html; httpd -f -p 127.0.0.1:8081 -h /www",
            ],
          },
          {
            name: "client",
            image,
            command: [
              "sh",
              "-c",
              "until wget -qO- http://localhost:8081/; do sleep 0.2; done; sleep 1000",
            ],
          },
        ],
      },
    });
    await kube.ok("wait", "--for=condition=Ready", "pod/pair", "--timeout=240s");
    await eventually("the answer", async () =>
      (await kube.ok("logs", "pair", "-c", "client")).includes("hello neighbour"),
    );
    const forward = spawn(kube.kubectlPath, [
      "--kubeconfig",
      kube.kubeconfig,
      "-n",
      "pods",
      "port-forward",
      "pair",
      ":8081",
    ]);
    const [line] = (await once(forward.stdout, "data")) as [Buffer];
    const port = /127\.0\.0\.1:(\d+)/.exec(line.toString())?.[1];
    const answer = await fetch(`http://127.0.0.1:${port}/`);
    assert.equal(await answer.text(), "hello neighbour\n");
    forward.kill();
    await kube.ok("delete", "pod", "pair", "--wait=false");
  });

  it("lets a container be attached to, and use the machine's own network", async () => {
    await kube.apply(
      shellPod(
        "typed",
        "read line; echo got $line; sleep 1000",
        { hostNetwork: true },
        { stdin: true },
      ),
    );
    await kube.ok("wait", "--for=condition=Ready", "pod/typed", "--timeout=240s");
    const args = ["--kubeconfig", kube.kubeconfig, "-n", "pods", "attach", "-i", "typed"];
    const attached = spawn(kube.kubectlPath, args);
    attached.stdin.write("hello\n");
    await eventually("the answer", async () =>
      (await kube.ok("logs", "typed")).includes("got hello"),
    );
    attached.kill();
    const ofPod = await kube.ok("get", "pod", "typed", "-o", "jsonpath={.status.podIP}");
    const uid = await kube.ok("get", "pod", "typed", "-o", "jsonpath={.metadata.uid}");
    const ofCell = await kube.ok("get", "cell", `cell-${uid}`, "-o", "jsonpath={.status.ip}");
    assert.equal(ofPod, ofCell);
  });

  it("starts an image that is often used from machines that have it", async () => {
    const startedFrom = async (name: string): Promise<string> => {
      const always = { imagePullPolicy: "Always" };
      await kube.apply(shellPod(name, "echo ran; sleep 1000", {}, always));
      await kube.ok("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=240s");
      assert.equal(await kube.ok("logs", name), "ran\n");
      const uid = await kube.ok("get", "pod", name, "-o", "jsonpath={.metadata.uid}");
      const cell = `cell-${uid}`;
      const way = await kube.ok("get", "cell", cell, "-o", "jsonpath={.status.startedFrom}");
      await kube.ok("delete", "pod", name, "--timeout=120s");
      return way;
    };
    // The template is created in the background, after the first pods that could have used it.
    const ways: string[] = [];
    await eventually(
      "a copy with the image",
      async () => {
        ways.push(await startedFrom(`often-${ways.length}`));
        return ways.at(-1) === "image-template";
      },
      240_000,
    );
  });

  it("leaves neither machine nor Cell behind", async () => {
    await kube.ok("delete", "pod", "--all", "--timeout=120s");
    await eventually("the last machine to go", () => machineProcesses().length === 0);
    assert.equal(await kube.ok("get", "cells", "-o", "name"), "");
  });
});
