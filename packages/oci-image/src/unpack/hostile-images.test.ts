// Attacks that were successful against other unpackers, with at least one test each, through the whole import. Every test
// compares everything outside the store before and after.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import {
  tar,
  tarEntry,
  temporaryFolder,
  writeLayout,
  type LayoutImage,
  type RawEntry,
} from "@kip/testing";
import { ImageError, type ImageErrorCode } from "../errors.ts";
import { digestOf } from "../digest.ts";
import { openImageStore, parseReference, type UnpackLimits } from "../index.ts";
import { listTree } from "../../test/fixtures/tree-listing.ts";

const folder = (name: string): RawEntry => ({ name, type: "5" });
const file = (name: string, content = "evil"): RawEntry => ({ name, content });
const symlink = (name: string, linkName: string): RawEntry => ({ name, type: "2", linkName });
const hardLink = (name: string, linkName: string): RawEntry => ({ name, type: "1", linkName });

/** Parameters of an attack. */
interface Attack {
  /** A folder of the host with `secret` and `folder/inner` in it. */
  readonly outside: string;
  /** Unpacks layers of these entries, and returns the tree. */
  readonly unpack: (...layers: readonly (readonly RawEntry[])[]) => Promise<string>;
  readonly unpackImage: (image: LayoutImage, limits?: Partial<UnpackLimits>) => Promise<string>;
}

/** Runs an attack. Whatever its result, the host must be unchanged. */
async function attack(run: (attack: Attack) => Promise<void>): Promise<void> {
  using work = temporaryFolder();
  const outside = path.join(work.path, "outside");
  mkdirSync(path.join(outside, "folder"), { recursive: true });
  writeFileSync(path.join(outside, "secret"), "secret");
  writeFileSync(path.join(outside, "folder/inner"), "inner");
  const before = listTree(outside);
  const storeRoot = path.join(work.path, "store");
  const unpackImage = async (
    image: LayoutImage,
    limits: Partial<UnpackLimits> = {},
  ): Promise<string> => {
    writeLayout(path.join(work.path, "layout"), image);
    const options = { root: storeRoot, logger: silentLogger, clock: systemClock, limits };
    const store = await openImageStore(options);
    const stored = await store.importLayout(path.join(work.path, "layout"), parseReference("app"));
    return stored.layers[0] ?? "";
  };
  try {
    await run({
      outside,
      unpackImage,
      unpack: async (...layers) => await unpackImage({ layers: layers.map(tar) }),
    });
  } finally {
    assert.deepEqual(listTree(outside), before, "the host was touched");
    assert.deepEqual(readdirSync(work.path).sort(), ["layout", "outside", "store"]);
    assert.deepEqual(readdirSync(path.join(storeRoot, "tmp")), [], "something was left behind");
  }
}

async function refused(
  unpacking: Promise<unknown>,
  code: ImageErrorCode,
  text: RegExp,
): Promise<void> {
  await assert.rejects(unpacking, (error) => {
    assert.ok(ImageError.is(error, code), `${code} expected: ${String(error)}`);
    assert.match(String(error), /Cannot import image "docker.io\/library\/app:latest"/);
    assert.match(String(error), text);
    return error instanceof ImageError && error.remedy !== undefined;
  });
}

describe("applyLayer(), of an image that attacks it", () => {
  it("CVE-2021-37701: replaces a folder by a link, and goes on below it", async () => {
    await attack(async ({ outside, unpack }) => {
      const tree = await unpack([
        folder("d/"),
        file("d/first"),
        symlink("d", outside),
        file("d/secret"),
        folder("a\\b/"),
        symlink("a", outside),
        file("a\\b/secret"),
        folder("CASE/"),
        symlink("case", outside),
        file("CASE/secret"),
      ]);
      // An entry below a link is created where the link leads inside the root.
      assert.equal(readFileSync(path.join(tree, outside, "secret"), "utf8"), "evil");
      assert.deepEqual(readdirSync(path.join(tree, "CASE")), ["secret"]);
      assert.deepEqual(readdirSync(path.join(tree, "a\\b")), ["secret"]);
    });
  });

  it("CVE-2026-23745: writes through a link with an absolute target", async () => {
    await attack(async ({ outside, unpack }) => {
      const secret = path.join(outside, "secret");
      const tree = await unpack([
        symlink("s", secret),
        file("s"),
        symlink("t", secret),
        folder("t/"),
      ]);
      assert.equal(readFileSync(path.join(tree, "s"), "utf8"), "evil");
      await refused(
        unpack([hardLink("h", secret), file("h")]),
        "IMAGE_UNSAFE_ENTRY",
        /layer 1 of 1: entry "h": it is a hard link to .*secret", which is not a file of the image/,
      );
    });
  });

  it("CVE-2026-24842: has the target of a hard link checked and used differently", async () => {
    await attack(async ({ unpack }) => {
      for (const target of ["a/../../../outside/secret", "../outside/secret", "b/..", ".."]) {
        const layer = [folder("a/"), symlink("b", "a"), hardLink("a/h", target)];
        await refused(unpack(layer), "IMAGE_UNSAFE_ENTRY", /entry "a\/h": /);
      }
    });
  });

  it("CVE-2026-26960: reads and writes a host file through a chain of links", async () => {
    await attack(async ({ outside, unpack }) => {
      const up = "../".repeat(20);
      const layer = [
        folder("a/b/c/"),
        symlink("a/b/c/up", "../../.."),
        symlink("out", `a/b/c/up/${up}${outside.slice(1)}`),
        hardLink("stolen", "out/secret"),
      ];
      await refused(unpack(layer), "IMAGE_UNSAFE_ENTRY", /entry "stolen"/);
    });
  });

  it("CVE-2026-42496, CVE-2026-42497: plants a link in one entry and uses it in the next", async () => {
    await attack(async ({ outside, unpack }) => {
      const tree = await unpack([
        symlink("x", "../../outside"),
        file("x/secret"),
        symlink("y", outside),
        folder("y/folder/"),
        { name: "y/folder", type: "5", mode: 0 },
      ]);
      assert.deepEqual(readdirSync(path.join(tree, "outside")), ["secret"]);
    });
  });

  it("banger: plants etc -> host in one layer; writes, deletes and links through it in the next", async () => {
    await attack(async ({ outside, unpack }) => {
      const first = [symlink("etc", outside), symlink("up", "../../../outside")];
      await unpack(first, [file("etc/secret"), file("etc/folder/inner")]);
      await unpack(first, [{ name: "etc/.wh.secret" }, { name: "etc/folder/.wh..wh..opq" }]);
      await unpack(first, [{ name: "up/.wh.secret" }, { name: "up/.wh.folder" }]);
      await refused(
        unpack(first, [hardLink("h", "etc/secret")]),
        "IMAGE_UNSAFE_ENTRY",
        /layer 2 of 2/,
      );
    });
  });

  it("CVE-2024-12905, CVE-2025-48387, CVE-2025-59343: goes out by links to links", async () => {
    await attack(async ({ outside, unpack }) => {
      await unpack([
        symlink("one", "."),
        symlink("two", "one/.."),
        symlink("three", "two/two/../outside"),
        file("three/secret"),
        symlink("four", path.dirname(outside)),
        symlink("five", "four/outside"),
        file("five/secret"),
      ]);
      const circle = [symlink("p", "q"), symlink("q", "p"), file("p/x")];
      await refused(
        unpack(circle),
        "IMAGE_UNSAFE_ENTRY",
        /entry "p\/x": the links on its way never end/,
      );
    });
  });

  it("climbs out by its names", async () => {
    await attack(async ({ outside, unpack }) => {
      for (const name of ["../outside/secret", "a/../../outside/secret", "..", "a/..", "./../x"]) {
        await refused(unpack([file(name)]), "IMAGE_UNSAFE_ENTRY", /climbs with "\.\."/);
      }
      // As everywhere else, absolute names are relative to the root.
      const tree = await unpack([file(path.join(outside, "secret"))]);
      assert.equal(readFileSync(path.join(tree, outside, "secret"), "utf8"), "evil");
    });
  });

  it("deletes upwards by whiteouts, or all there is", async () => {
    await attack(async ({ unpack }) => {
      const first = [folder("a/"), file("a/b")];
      for (const name of [".wh...", ".wh..", ".wh.", "a/.wh..."]) {
        const layer = [file(name)];
        await refused(
          unpack(first, layer),
          "IMAGE_UNSAFE_ENTRY",
          /it deletes a folder from within/,
        );
      }
      const tree = await unpack(first, [file(".wh..wh..opq"), file("new")]);
      assert.deepEqual(readdirSync(tree), ["new"]);
    });
  });

  it("replaces the root itself", async () => {
    await attack(async ({ outside, unpack }) => {
      for (const name of ["./", "/", ".", ""]) {
        await refused(unpack([symlink(name, outside)]), "IMAGE_UNSAFE_ENTRY", /replace the root/);
      }
    });
  });

  it("brings devices, and FIFOs through links", async () => {
    await attack(async ({ outside, unpack, unpackImage }) => {
      const tree = await unpack([
        { name: "sda", type: "4" },
        { name: "null", type: "3" },
        symlink("out", outside),
        { name: "out/pipe", type: "6" },
        file("ordinary"),
      ]);
      const names = readdirSync(tree);
      assert.ok(!names.includes("sda") && !names.includes("null"));
      assert.ok(names.includes("ordinary"));
      const many = Array.from({ length: 5000 }, (_, index) => ({ name: `p${index}`, type: "6" }));
      await refused(
        unpackImage({ layers: [tar(many)] }),
        "IMAGE_LIMIT_EXCEEDED",
        /4096 special files/,
      );
    });
  });

  it("brings attributes for what a link or another entry has taken the place of", async () => {
    await attack(async ({ outside, unpack }) => {
      const pax = { "SCHILY.xattr.user.evil": "evil", "SCHILY.xattr.trusted.overlay.opaque": "y" };
      await unpack([
        { name: "folder/inner", pax },
        folder("other/"),
        { name: "secret", pax },
        symlink("folder", outside),
        symlink("secret", path.join(outside, "secret")),
        { name: "link", type: "2", linkName: outside, pax },
        { name: "link/inner", pax },
      ]);
    });
  });

  it("has sparse files larger than may be", async () => {
    await attack(async ({ unpackImage }) => {
      const sparse = (size: string): Record<string, string> => ({
        "GNU.sparse.map": "0,1",
        "GNU.sparse.size": size,
      });
      const huge = tar([{ name: "huge", content: "x", pax: sparse(`${2 ** 50}`) }]);
      await refused(unpackImage({ layers: [huge] }), "IMAGE_LIMIT_EXCEEDED", /unpacked bytes/);
      const lying = tar([{ name: "lying", content: "xy", pax: sparse("100") }]);
      await refused(unpackImage({ layers: [lying] }), "IMAGE_INVALID", /broken map/);
    });
  });

  it("CVE-2024-3727: has digests that are paths", async () => {
    await attack(async ({ unpackImage }) => {
      const layers = [tar([file("a")])];
      for (const digest of [
        "sha256:../../../outside/secret",
        `sha256:${"A".repeat(64)}`,
        "x",
        "sha512:00",
      ]) {
        const editManifest = (manifest: Record<string, unknown>): void => {
          const [layer] = manifest["layers"] as object[]; // the writer's own
          manifest["layers"] = [{ ...layer, digest }];
        };
        await refused(unpackImage({ layers, editManifest }), "IMAGE_INVALID", /its manifest/);
        await refused(
          unpackImage({ layers, diffIds: [digest] }),
          "IMAGE_INVALID",
          /its configuration/,
        );
        assert.throws(() => parseReference(`app@${digest}`), { code: "IMAGE_NAME_INVALID" });
      }
    });
  });

  it("CVE-2021-41190: is a manifest to one reader and an index to another", async () => {
    await attack(async ({ unpackImage }) => {
      const editManifest = (manifest: Record<string, unknown>): void => {
        manifest["manifests"] = [];
      };
      const image = { layers: [tar([file("a")])], editManifest };
      await refused(unpackImage(image), "IMAGE_INVALID", /its index claims to be a manifest/);
    });
  });

  it("CVE-2026-50195: brings a name that stands for another image", async () => {
    using work = temporaryFolder();
    const options = {
      root: path.join(work.path, "store"),
      logger: silentLogger,
      clock: systemClock,
    };
    const store = await openImageStore(options);
    const good = path.join(work.path, "good");
    writeLayout(good, { layers: [tar([file("good")])] });
    const trusted = await store.importLayout(good, parseReference("trusted:1"));
    const bad = path.join(work.path, "bad");
    const names = ["docker.io/library/trusted:1", "docker.io/library/evil:1"];
    writeLayout(bad, { layers: [tar([file("bad")])], names });
    await store.importLayout(bad, parseReference("evil:1"));
    assert.equal((await store.find(parseReference("trusted:1")))?.id, trusted.id);
    assert.equal(await store.find(parseReference("trusted")), undefined);
  });

  it("lies about sizes, and stops in the middle", async () => {
    await attack(async ({ unpackImage }) => {
      const whole = tar([file("a", "x".repeat(5000))]);
      const cases: readonly [Buffer, ImageErrorCode, RegExp][] = [
        [
          tarEntry({ name: "a", content: "x", size: 8 ** 11 - 1 }),
          "IMAGE_INVALID",
          /stops in the middle/,
        ],
        [
          tarEntry({ name: "a", pax: { size: "9007199254740993" } }),
          "IMAGE_INVALID",
          /broken size/,
        ],
        [tarEntry({ name: "a", pax: { size: "-1" } }), "IMAGE_INVALID", /broken size/],
        [whole.subarray(0, 700), "IMAGE_INVALID", /stops in the middle/],
        [whole.subarray(0, 100), "IMAGE_INVALID", /stops in the middle/],
        [tar([{ name: "a", pax: { path: "a\0b" } }]), "IMAGE_INVALID", /broken PAX header/],
        [
          tar([{ name: "a", type: "x", content: Buffer.alloc(2_000_000) }]),
          "IMAGE_INVALID",
          /oversized/,
        ],
        [tar([{ name: "a", type: "S", content: "x" }]), "IMAGE_INVALID", /sparse/],
        [tar([{ name: "a", type: "Z" }]), "IMAGE_INVALID", /unknown type "Z"/],
        [tar([{ name: "a", pax: { uid: "4294967295" } }]), "IMAGE_INVALID", /impossible owner/],
        [tar([file("a"), file("a/b")]), "IMAGE_INVALID", /entry "a\/b": .*not a folder/],
        [tar([file("n".repeat(256))]), "IMAGE_INVALID", /name is too long/],
        [Buffer.from("no archive at all".repeat(100)), "IMAGE_INVALID", /not a tar archive/],
      ];
      for (const [layer, code, text] of cases) {
        await refused(unpackImage({ layers: [layer] }), code, text);
      }
    });
  });

  it("has content that is not what was promised", async () => {
    await attack(async ({ unpackImage }) => {
      const layers = [tar([file("a")])];
      const wrong = digestOf("something else");
      await refused(
        unpackImage({ layers, diffIds: [wrong] }),
        "IMAGE_DIGEST_MISMATCH",
        /layer 1 of 1/,
      );
      await refused(
        unpackImage({ layers, diffIds: [] }),
        "IMAGE_INVALID",
        /1 layers, its configuration 0/,
      );
      for (const change of [-1, 1]) {
        const editManifest = (manifest: Record<string, unknown>): void => {
          const [layer] = manifest["layers"] as { size: number }[]; // the writer's own
          manifest["layers"] = [{ ...layer, size: (layer?.size ?? 0) + change }];
        };
        await refused(unpackImage({ layers, editManifest }), "IMAGE_DIGEST_MISMATCH", /bytes/);
      }
    });
  });

  it("is a bomb of bytes, entries, layers or depth", async () => {
    await attack(async ({ unpackImage }) => {
      const big = tar([file("zeros", "\0".repeat(20_000_000))]);
      const many = tar(Array.from({ length: 1000 }, (_, index) => file(`f${index}`, "")));
      const deep = tar([file(`${"d/".repeat(300)}f`)]);
      const one = tar([file("a")]);
      const layers = Array.from({ length: 11 }, () => one);
      const limit = "IMAGE_LIMIT_EXCEEDED";
      await refused(unpackImage({ layers: [big] }, { unpackedBytes: 1_000_000 }), limit, /bytes/);
      await refused(unpackImage({ layers: [many] }, { entries: 999 }), limit, /999 entries/);
      await refused(unpackImage({ layers: [deep] }), limit, /256 nested folders/);
      await refused(unpackImage({ layers }, { layers: 10 }), limit, /10 layers/);
      const editManifest = (manifest: Record<string, unknown>): void => {
        const [layer] = manifest["layers"] as object[]; // the writer's own
        manifest["layers"] = [{ ...layer, size: 2 ** 50 }];
      };
      await refused(unpackImage({ layers: [one], editManifest }), limit, /more than \d+ bytes/);
      // Links must not lead deeper than names may.
      const dig = [
        symlink("d/l", "d"),
        symlink("x", "y/".repeat(200)),
        file(`x/${"z/".repeat(100)}f`),
      ];
      await refused(unpackImage({ layers: [tar(dig)] }), limit, /256 nested folders/);
    });
  });
});
