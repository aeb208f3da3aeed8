import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { ImageError } from "./errors.ts";
import { digestOf } from "./digest.ts";
import { parseConfig } from "./image-config.ts";
import { mediaTypes, parseManifest, type Descriptor } from "./manifest.ts";
import { choosePlatform } from "./platform.ts";

const bytes = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const blob = { mediaType: "x", digest: digestOf("x"), size: 1 };

describe("parseManifest()", () => {
  it("reads Docker's and OCI's manifests and indexes", () => {
    const manifest = { schemaVersion: 2, config: blob, layers: [blob] };
    for (const type of [mediaTypes.ociManifest, mediaTypes.dockerManifest, undefined]) {
      assert.equal(parseManifest(bytes(manifest), type).kind, "manifest");
    }
    const index = { schemaVersion: 2, manifests: [blob] };
    for (const type of [mediaTypes.ociIndex, mediaTypes.dockerList, "text/plain"]) {
      assert.equal(parseManifest(bytes(index), type).kind, "index");
    }
  });

  const wrong: readonly [string, unknown, string | undefined, RegExp][] = [
    ["schema 1", { schemaVersion: 1, fsLayers: [] }, undefined, /schema 1, which Docker withdrew/],
    ["another schema", { schemaVersion: 3 }, undefined, /schema 3/],
    ["no layers", { schemaVersion: 2, config: blob }, undefined, /lacks a configuration or layers/],
    ["two minds", { schemaVersion: 2, manifests: [], layers: [] }, undefined, /claims to be/],
    [
      "an index by the name of a manifest",
      { schemaVersion: 2, manifests: [] },
      mediaTypes.ociManifest,
      /claims/,
    ],
    [
      "a manifest by the name of an index",
      { schemaVersion: 2, config: blob, layers: [] },
      mediaTypes.ociIndex,
      /shape/,
    ],
    [
      "a type that is not what the registry said",
      { schemaVersion: 2, mediaType: mediaTypes.ociManifest, config: blob, layers: [] },
      mediaTypes.dockerManifest,
      /was sent as/,
    ],
    [
      "a negative size",
      { schemaVersion: 2, config: { ...blob, size: -1 }, layers: [] },
      undefined,
      /manifest/,
    ],
  ];
  for (const [what, value, type, text] of wrong) {
    it(`refuses ${what}`, () => {
      assert.throws(() => parseManifest(bytes(value), type), {
        code: "IMAGE_INVALID",
        message: text,
      });
    });
  }

  it("answers any JSON, and what is none, with a manifest or our failure", () => {
    const input = fc.oneof(
      fc.json().map((text) => Buffer.from(text)),
      fc.uint8Array(),
      fc
        .record(
          {
            schemaVersion: fc.constant(2),
            config: fc.jsonValue(),
            layers: fc.jsonValue(),
            manifests: fc.jsonValue(),
          },
          { requiredKeys: [] },
        )
        .map(bytes),
    );
    const check = (parse: () => unknown): void => {
      try {
        parse();
      } catch (error) {
        if (!ImageError.is(error, "IMAGE_INVALID")) throw error;
      }
    };
    fc.assert(
      fc.property(input, (document) => {
        check(() => parseManifest(document, undefined));
        check(() => parseConfig(document));
      }),
    );
  });
});

describe("parseConfig()", () => {
  it("CVE-2022-23648: keeps volumes and the working folder below the root", () => {
    const document = {
      rootfs: { diff_ids: [] },
      config: {
        Volumes: { "../../etc": {}, "/a/../../b/": {}, "/etc/": {} },
        WorkingDir: "../../proc",
      },
    };
    const { config } = parseConfig(bytes(document));
    assert.deepEqual(config.volumes, ["/etc", "/b"]);
    assert.equal(config.workingDir, "/proc");
  });

  it("has no volume that is the root", () => {
    const config = { Volumes: { "/": {}, "": {}, "..": {}, "/data": {} } };
    const document = { rootfs: { diff_ids: [] }, config };
    assert.deepEqual(parseConfig(bytes(document)).config.volumes, ["/data"]);
  });

  it("takes 10,000 variables, words, ports and labels of an image, and refuses one with more", () => {
    const of = (config: object) => parseConfig(bytes({ rootfs: {}, config })).config;
    const list = (length: number) => Array.from({ length }, (_, index) => `V${index}=`);
    const map = (length: number, value: unknown) =>
      Object.fromEntries(list(length).map((name) => [name, value]));
    assert.equal(of({ Env: list(10_000) }).env.length, 10_000);
    const configs = [
      { Env: list(10_001) },
      { Cmd: list(10_001) },
      { Entrypoint: list(10_001) },
      { ExposedPorts: map(10_001, {}) },
      { Labels: map(10_001, "") },
    ];
    for (const config of configs)
      assert.throws(
        () => of(config),
        ({ code, cause }) => code === "IMAGE_INVALID" && /at most 10000 entries/.test(`${cause}`),
      );
  });

  it("takes 1,000 volumes of an image, and refuses one with more", () => {
    const parse = (count: number): readonly string[] => {
      const names = Array.from({ length: count }, (_, index) => [`/v/${index}`, {}] as const);
      const config = { Volumes: Object.fromEntries(names) };
      return parseConfig(bytes({ rootfs: { diff_ids: [] }, config })).config.volumes;
    };
    assert.equal(parse(1000).length, 1000);
    assert.throws(() => parse(1001), {
      code: "IMAGE_INVALID",
      message: /more than 1000 volumes/,
    });
  });

  it("takes an image that says nothing", () => {
    const { config } = parseConfig(bytes({ rootfs: {}, config: { Cmd: null, Labels: null } }));
    assert.deepEqual(config.cmd, []);
    assert.equal(config.workingDir, "/");
    assert.equal(config.stopSignal, undefined);
  });
});

describe("choosePlatform()", () => {
  const of = (architecture: string, variant?: string, os = "linux"): Descriptor => ({
    ...blob,
    digest: digestOf(`${os}/${architecture}/${variant}`),
    platform: { os, architecture, ...(variant !== undefined && { variant }) },
  });

  it("prefers the very variant, and takes another rather than none", () => {
    const wanted = { os: "linux", architecture: "arm64", variant: "v8" };
    const exact = of("arm64", "v8");
    assert.equal(choosePlatform([of("amd64"), of("arm64"), exact], wanted), exact);
    const only = of("arm64");
    assert.equal(choosePlatform([of("amd64"), only], wanted), only);
  });

  it("knows architectures by the kernel's names, and takes no system for Linux", () => {
    const amd64 = { os: "linux", architecture: "amd64" };
    for (const there of [of("x86_64"), of("amd64", undefined, ""), of("x86_64", "v1", "")]) {
      assert.equal(choosePlatform([of("aarch64"), there], amd64), there);
    }
    const arm64 = { os: "linux", architecture: "arm64", variant: "v8" };
    assert.equal(choosePlatform([of("x86_64"), of("aarch64")], arm64).digest, of("aarch64").digest);
    assert.throws(() => choosePlatform([of("i386"), of("amd64", undefined, "windows")], amd64), {
      code: "IMAGE_NOT_FOUND",
    });
  });

  it("names what there is when nothing fits, without attestations", () => {
    const there = [
      of("arm64", "v8"),
      of("amd64", undefined, "windows"),
      of("unknown", undefined, "unknown"),
    ];
    assert.throws(() => choosePlatform(there, { os: "linux", architecture: "amd64" }), {
      code: "IMAGE_NOT_FOUND",
      message: /not made for linux\/amd64 but for linux\/arm64\/v8, windows\/amd64$/,
    });
  });
});
