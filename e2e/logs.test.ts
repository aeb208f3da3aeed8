import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, describe, it } from "node:test";
import { isWholeRun } from "@kip/testing";
import { cluster, eventually, shellPod, type Cluster } from "./cluster.ts";

const limitKiB = 5 * 10 * 1024;
/**
 * Each line has its number and 1000 bytes. 10,000 lines fill a file of 10 MiB. Written by the cell's Node, because a shell
 * takes minutes under emulation.
 */
const linesOf = (from: number, to: number): string =>
  `chroot /cell /usr/lib/kip/node -e '
    const { writeSync } = require("node:fs");
    for (let line = ${from}, block = ""; line <= ${to}; line++) {
      block += line + " " + "x".repeat(1000) + "\\n";
      if (line % 60 === 0 || line === ${to}) block = (writeSync(1, block), "");
    }'`;
const waitFor = (file: string): string => `until [ -e /${file} ]; do sleep 0.2; done`;
const logs = "/cell/var/lib/itzo/logs";
/** The first part spans two files. The whole exceeds the limit of a log. */
const [firstPart, whole] = [12_000, 66_000];
const slow = !isWholeRun && "writes 54 MB: npm run test:e2e:all";

describe("the log of a container that writes more than a file", () => {
  let kube: Cluster;

  before(async () => {
    kube = await cluster("logs");
    const script = [
      waitFor("go"),
      `${linesOf(1, firstPart)}; echo first part`,
      waitFor("next"),
      "echo next file",
      waitFor("flood"),
      `${linesOf(firstPart + 1, whole)}; sync; echo used $(du -sk ${logs} | cut -f1)`,
      "echo the end",
    ].join("\n");
    const volumes = [{ name: "cell", hostPath: { path: "/" } }];
    const spec = { restartPolicy: "Never", hostPID: true, volumes };
    const volumeMounts = [{ name: "cell", mountPath: "/cell" }];
    await kube.apply(shellPod("chatty", script, spec, { volumeMounts }));
    await kube.ok("wait", "--for=condition=Ready", "pod/chatty", "--timeout=240s");
  });

  after(async () => {
    await kube.ok("delete", "pod", "chatty", "--wait=false", "--grace-period=1");
  });

  it("comes to a follower whole, over the borders of files", async () => {
    const flags = ["--kubeconfig", kube.kubeconfig, "--namespace=logs"];
    const follower = spawn(kube.kubectlPath, [...flags, "logs", "-f", "chatty"]);
    const shown: string[] = [];
    follower.stdout.setEncoding("utf8");
    await kube.ok("exec", "chatty", "--", "touch", "/go");
    for await (const chunk of follower.stdout as AsyncIterable<string>) {
      shown.push(chunk);
      if (chunk.endsWith("first part\n")) break;
    }
    follower.kill();
    const lines = shown.join("").split("\n").slice(0, -1);
    assert.equal(lines.pop(), "first part");
    const numbers = lines.map((line) => Number(/^\d+(?= x{1000}$)/.exec(line)?.[0]));
    assert.deepEqual(
      numbers.filter((number, index) => number !== index + 1),
      [],
    );
    assert.equal(numbers.length, firstPart);
  });

  it("begins in the newest file, as at a kubelet", async () => {
    assert.equal(await kube.ok("logs", "chatty", "--tail=1"), "first part\n");
    await eventually("the second file", async () => {
      const files = await kube.ok("exec", "chatty", "--", "sh", "-c", `ls ${logs}/main/0`);
      return files.startsWith("1.log\n2.log\n");
    });
    // The newest file may still be empty.
    assert.equal(await kube.ok("logs", "chatty", "--tail=1"), "first part\n");
    await kube.ok("exec", "chatty", "--", "touch", "/next");
    await eventually("a line in the newest file", async () => {
      const all = (await kube.ok("logs", "chatty")).trimEnd().split("\n");
      return all.length < firstPart && all.at(-1) === "next file";
    });
  });

  it(
    "takes no more of the disk than its limit, while the agent is killed too",
    { skip: slow },
    async () => {
      await kube.ok("exec", "chatty", "--", "touch", "/flood");
      const kill = "sleep 1; kill -9 $(pgrep -f 'itzo[.]js')";
      await kube.kubectl("exec", "chatty", "--", "sh", "-c", kill);
      const isOver = "--for=jsonpath={.status.phase}=Succeeded";
      await kube.ok("wait", isOver, "pod/chatty", "--timeout=240s");
      const end = await kube.ok("logs", "chatty", "--tail=3");
      const [last, used, theEnd] = end.split("\n");
      assert.match(last ?? "", /^66000 x{1000}$/);
      assert.equal(theEnd, "the end");
      const usedKiB = Number(used?.split(" ")[1]);
      assert.ok(usedKiB > 1024 && usedKiB <= 2 * limitKiB, end.slice(-40));
      await eventually("the machine to go", async () => {
        return !(await kube.ok("get", "cells")).includes("chatty");
      });
      const saved = await kube.ok("logs", "chatty");
      assert.ok(saved.endsWith("the end\n"));
      assert.ok(saved.length > 9_000_000, `${saved.length} bytes are saved`);
    },
  );
});
