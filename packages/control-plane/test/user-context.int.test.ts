import assert from "node:assert/strict";
import { chmod, chown, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";
import {
  mergeKubeconfigContext,
  obtainBinaries,
  removeKubeconfigContext,
} from "@kip/control-plane";
import { CertificateAuthority } from "@kip/pki";
import { temporaryFolder } from "@kip/testing";
import { ControlPlaneError } from "../src/errors.ts";

const { paths } = await obtainBinaries({
  cacheDir: process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip",
});
const authority = await CertificateAuthority.create({ commonName: "test", validMs: 3_600_000 });
const user = await authority.issue({ commonName: "me", usages: ["client"], validMs: 3_600_000 });

describe("mergeKubeconfigContext() and removeKubeconfigContext()", () => {
  it("leave a user's file as it was, but for layout", async () => {
    using home = await temporaryHome();
    await writeFile(home.path, foreign, { mode: 0o640 });
    const before = JSON.parse(foreign) as unknown;

    await mergeKubeconfigContext(home.options);
    const merged = await readFile(home.path, "utf8");
    assert.match(merged, /^current-context: kip-local$/m);
    assert.match(merged, /certificate-authority: certs\/ca\.crt/);
    assert.match(merged, /command: token-helper/);
    assert.equal((await stat(home.path)).mode & 0o777, 0o600);
    await mergeKubeconfigContext({ ...home.options, server: "https://127.0.0.1:2" });
    assert.match(await readFile(home.path, "utf8"), /server: https:\/\/127\.0\.0\.1:2$/m);

    await removeKubeconfigContext(home.options);
    await removeKubeconfigContext(home.options);
    assert.deepEqual(await home.asJson(), before);
    assert.deepEqual(await readdir(join(home.path, "..")), ["config"]);
  });

  it("remove a file and a directory that they made", async () => {
    using home = await temporaryHome();
    const inside = { ...home.options, path: join(home.directory, "new", "config") };
    await mergeKubeconfigContext(inside);
    assert.deepEqual(await readdir(join(home.directory, "new")), ["config"]);
    await removeKubeconfigContext(inside);
    assert.deepEqual((await readdir(home.directory)).sort(), [".kube"]);
  });

  it("remove all folders that they made, and give them to the owner of the one around", async () => {
    using home = await temporaryHome();
    await chown(home.directory, 4321, 4321);
    const inside = { ...home.options, path: join(home.directory, "one", "two", "config") };
    await mergeKubeconfigContext(inside);
    for (const name of ["one", "one/two", "one/two/config"])
      assert.equal((await stat(join(home.directory, name))).uid, 4321, name);
    await removeKubeconfigContext(inside);
    assert.deepEqual((await readdir(home.directory)).sort(), [".kube"]);
  });

  it("do not touch what another current context means", async () => {
    using home = await temporaryHome();
    await writeFile(home.path, foreign);
    await mergeKubeconfigContext({ ...home.options, setCurrent: false });
    assert.match(await readFile(home.path, "utf8"), /^current-context: work$/m);
    await removeKubeconfigContext(home.options);
    assert.match(await readFile(home.path, "utf8"), /^current-context: work$/m);
  });

  it("take over the lock of a run that was killed, and of no other program", async () => {
    using home = await temporaryHome();
    await writeFile(home.path, foreign);
    await writeFile(`${home.path}.lock`, JSON.stringify({ pid: 1, startTicks: "-1" }));
    await mergeKubeconfigContext(home.options);
    assert.match(await readFile(home.path, "utf8"), /^current-context: kip-local$/m);
    const stat = await readFile("/proc/1/stat", "utf8");
    const startTicks = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
    await writeFile(`${home.path}.lock`, JSON.stringify({ pid: 1, startTicks }));
    await assert.rejects(removeKubeconfigContext(home.options), { code: "KUBECONFIG_LOCKED" });
  });

  it("keep the administrator's key from others while they change a file that all may read", async () => {
    using home = await temporaryHome();
    await writeFile(home.path, foreign, { mode: 0o644 });
    const modes: number[] = [];
    const kubectl = join(home.directory, "kubectl");
    const copy = `${home.path}.kip-edit`;
    const script = `stat -c %a ${copy} >>${home.directory}/modes; exec ${home.options.kubectl} "$@"`;
    await writeFile(kubectl, `#!/bin/sh\nPATH=/usr/bin:/bin\n${script}\n`, { mode: 0o755 });
    await mergeKubeconfigContext({ ...home.options, kubectl });
    const text = await readFile(join(home.directory, "modes"), "utf8");
    modes.push(...text.trim().split("\n").map(Number));
    assert.ok(modes.length > 1 && modes.every((mode) => mode === 600), text);
  });

  it("refuse a file that is locked or broken, and leave it alone", async () => {
    using home = await temporaryHome();
    await writeFile(home.path, "{ not: [a kubeconfig");
    await assert.rejects(mergeKubeconfigContext(home.options), (error) =>
      ControlPlaneError.is(error, "KUBECONFIG_INVALID"),
    );
    assert.equal(await readFile(home.path, "utf8"), "{ not: [a kubeconfig");
    await writeFile(`${home.path}.lock`, "");
    await assert.rejects(mergeKubeconfigContext(home.options), (error) =>
      ControlPlaneError.is(error, "KUBECONFIG_LOCKED"),
    );
    assert.deepEqual((await readdir(join(home.path, ".."))).sort(), ["config", "config.lock"]);
  });
});

const foreign = JSON.stringify({
  apiVersion: "v1",
  kind: "Config",
  "current-context": "work",
  clusters: [
    {
      name: "work",
      cluster: { server: "https://work.invalid", "certificate-authority": "certs/ca.crt" },
    },
  ],
  contexts: [{ name: "work", context: { cluster: "work", user: "me", namespace: "mine" } }],
  users: [
    {
      name: "me",
      user: {
        exec: {
          apiVersion: "client.authentication.k8s.io/v1",
          args: ["--now"],
          command: "token-helper",
          env: null,
          interactiveMode: "IfAvailable",
          provideClusterInfo: false,
        },
      },
    },
  ],
});

async function temporaryHome() {
  const home = temporaryFolder();
  const state = temporaryFolder();
  const directory = home.path;
  const path = join(directory, ".kube", "config");
  await mkdir(join(path, ".."));
  await chmod(directory, 0o755);
  const options = {
    path,
    kubectl: paths.kubectl,
    statePath: join(state.path, "previous"),
    server: "https://127.0.0.1:1",
    ca: authority.certificate,
    certificate: user.certificate,
    key: user.key,
  };
  return {
    directory,
    path,
    options,
    asJson: async (): Promise<unknown> => {
      const args = ["config", "view", "--raw", "-o", "json", `--kubeconfig=${path}`];
      const config = JSON.parse((await runCommand(paths.kubectl, args)).stdout) as object;
      // kubectl always prints this one, empty.
      return Object.fromEntries(Object.entries(config).filter(([key]) => key !== "preferences"));
    },
    [Symbol.dispose]() {
      home.remove();
      state.remove();
    },
  };
}
