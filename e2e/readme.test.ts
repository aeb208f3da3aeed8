// Runs the steps of README.md as written, without any flags, like a new user.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";
import { run, type Result } from "./cluster.ts";

const root = path.join(import.meta.dirname, "..");
const isInUse = existsSync("/var/lib/kip/daemon.json");

/** The shell lines of a section, up to the first that does not use the cluster. */
function shellLines(section: string): readonly string[] {
  const text = readFileSync(path.join(root, "README.md"), "utf8");
  const [, body = ""] = text.split(`\n## ${section}\n`);
  const [own = ""] = body.split("\n## ");
  const blocks = [...own.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, code = ""]) => code);
  const lines = blocks.flatMap((block) => block.trim().split("\n"));
  const end = lines.findIndex((line) => line.includes("--down"));
  return lines.slice(0, end + 1);
}

const skip = isInUse && "a local cluster of somebody's is running here: kip down";

describe('README.md, "Try it"', { skip }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), "kip-readme-"));
  const env = { KIP_STATE_DIR: `${folder}/state`, KUBECONFIG: `${folder}/kubeconfig` };
  after(async () => {
    await run(path.join(root, "apps/kip/bin/kip"), ["down"], { env });
    rmSync(folder, { recursive: true });
  });

  /** Runs a line after those that set variables, where a person would run it. */
  async function step(settings: readonly string[], line: string, keys?: string): Promise<Result> {
    const script = ["set -e", `cd ${root}`, ...settings, line].join("\n");
    const options = { env, timeoutMs: 600_000 };
    if (keys === undefined) return await run("sh", ["-c", script], options);
    // The line needs a terminal.
    return await run("script", ["-qec", script, "/dev/null"], { ...options, input: keys });
  }

  it("does what it says, line by line", async () => {
    const lines = shellLines("Try it");
    const settings = lines.filter((line) => /^\w+=/.test(line));
    /** How to check that a line worked, by a word in it. */
    const outcomes: Readonly<Record<string, (result: Result) => void>> = {
      "quickstart -- --down": () => {
        for (const file of ["state", "kubeconfig"]) assert.ok(!existsSync(`${folder}/${file}`));
        assert.ok(!existsSync("/run/kip/kip/netns"), "the network is gone");
      },
      quickstart: ({ stdout }) => assert.match(stdout, /Hello from hello[^]*Created to Ready/),
      "kubectl get": ({ stdout }) => {
        assert.match(stdout, /^pod\/hello +1\/1 +Running/m);
        assert.match(stdout, /^cell\S*\/cell-\S+ +hello +default /m);
      },
      "kubectl exec": ({ stdout }) => assert.match(stdout, /answer: 42/),
      "kipctl explain": ({ stdout }) => assert.match(stdout, /^Pod default\/hello: Running/),
      "kubectl create": ({ stdout }) => assert.match(stdout, /created/),
    };
    const done: string[] = [];
    for (const line of lines.filter((each) => !settings.includes(each))) {
      const result = await step(
        settings,
        line,
        line.includes(" -it ") ? "echo answer: $((6*7)); exit\n" : undefined,
      );
      assert.equal(result.status, 0, `${line}\n${result.stdout}${result.stderr}`);
      const word = Object.keys(outcomes).find((each) => line.includes(each));
      assert.ok(word !== undefined, `README.md has a line whose outcome is not tested: ${line}`);
      outcomes[word]?.(result);
      done.push(word);
      if (word !== "kubectl create") continue;
      const rollout = await step(settings, "kubectl rollout status deployment/web --timeout=300s");
      assert.equal(rollout.status, 0, rollout.stdout + rollout.stderr);
    }
    assert.deepEqual(done.toSorted(), Object.keys(outcomes).toSorted());
  });
});
