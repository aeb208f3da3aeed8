import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { useCluster } from "./support/cluster.ts";
import { runGroup } from "./support/run-group.ts";

const cluster = useCluster();
const root = path.join(import.meta.dirname, "../../..");
const readme = path.join(root, "packages/virtual-kubelet/README.md");

/** The tutorial's code, by the word after each block's language. */
async function blocks(): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(readme, "utf8");
  const found = text.matchAll(/^```\w+ ([\w.]+)\n(.*?)^```$/gms);
  return new Map([...found].map(([, name = "", code = ""]) => [name, code]));
}

describe("the README of the package", () => {
  it(
    "is a tutorial that works with the packed package in an empty project",
    { timeout: 170_000 },
    async ({ signal }) => {
      const folder = await mkdtemp(path.join(tmpdir(), "vk-tutorial-"));
      try {
        const packer = path.join(root, "tools/pack-virtual-kubelet.ts");
        const packing = [packer, path.join(folder, "pack")];
        const tarball = (await runGroup(process.execPath, packing, { signal })).trim();
        const project = path.join(folder, "project");
        await mkdir(project);
        const npmSetting = async (name: string): Promise<string> =>
          (await runGroup("npm", ["config", "get", name], { signal })).trim();
        const env = {
          // The registry may need the caller's proxy, certificates or npmrc.
          ...process.env,
          npm_config_userconfig: await npmSetting("userconfig"),
          npm_config_cache: await npmSetting("cache"),
          // kubectl caches facts about servers there.
          HOME: folder,
          npm_config_prefer_offline: "true",
          npm_config_audit: "false",
          npm_config_fund: "false",
          KUBECONFIG: cluster.plane.kubeconfigPath,
          PATH: [
            path.dirname(process.execPath),
            path.dirname(cluster.plane.kubectlPath),
            process.env["PATH"],
          ].join(":"),
        };
        const code = await blocks();
        const shell = async (name: string): Promise<string> => {
          const script = code.get(name) ?? assert.fail(`the README has no block "${name}"`);
          const ours = script.replace("@kip/virtual-kubelet", tarball);
          return await runGroup("sh", ["-euc", ours], { cwd: project, env, signal });
        };
        await shell("install");
        for (const file of ["provider.ts", "node.ts"])
          await writeFile(path.join(project, file), code.get(file) ?? assert.fail(file));
        // The tutorial's own line starts it in the background of a shell; here it must end with the test.
        assert.equal(code.get("start"), "node node.ts &\n");
        const node = spawn(process.execPath, ["node.ts"], {
          cwd: project,
          env,
          stdio: ["ignore", "pipe", "inherit"],
        });
        try {
          const [line] = await once(createInterface({ input: node.stdout }), "line", { signal });
          assert.equal(line, "ready with 0 pods");
          // A new control plane has its default service account a moment later.
          await cluster.plane.kubectl(["wait", "--for=create", "serviceaccount/default"]);
          const output = await shell("use");
          assert.match(output, /pod\/hello condition met[^]*pod "hello" deleted/);
        } finally {
          const ended = once(node, "exit");
          node.kill("SIGTERM");
          assert.deepEqual((await ended).slice(0, 1), [0]);
        }
        await shell("end");
      } finally {
        await rm(folder, { recursive: true });
      }
    },
  );
});
