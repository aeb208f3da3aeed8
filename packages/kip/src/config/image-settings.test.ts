import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isCodedError } from "@kip/base";
import { CertificateAuthority } from "@kip/pki";
import { checkProviderConfig, decodeProviderConfig } from "./provider-config.ts";

const { certificate: ca } = await CertificateAuthority.create({
  commonName: "ca",
  validMs: 60_000,
});
const read = (settings: object) => decodeProviderConfig({ cloud: { local: {} }, ...settings });

describe("decodeProviderConfig(), of the section registries", () => {
  it("has mirrors, certificates, credentials, and registries without TLS by name only", () => {
    const mirror = { host: "mirror.test:5000", ca, username: "u", password: "p" };
    const hub = { host: "docker.io", mirrors: ["https://mirror.test:5000", "http://lab:5000"] };
    const { registries } = read({
      registries: [hub, mirror, { host: "lab:5000", insecure: true }, { host: "[fd00::1]:5000" }],
    });
    assert.deepEqual(registries, [
      hub,
      mirror,
      { host: "lab:5000", endpoint: "http://lab:5000" },
      { host: "[fd00::1]:5000" },
    ]);
  });

  for (const [what, entry, message] of [
    ["a URL for a host", { host: "https://r.test" }, /registries\[0\]\.host.*not a host/],
    [
      "an endpoint that is not a URL",
      { endpoint: "r.test:80" },
      /registries\[0\]\.endpoint.*not a valid URL/,
    ],
    [
      "a mirror with a password",
      { mirrors: ["https://u:p@m"] },
      /mirrors\[0\].*"https:\/\/…@m" has/,
    ],
    ["a user without password", { username: "u" }, /registries\[0\]\.password.*without a password/],
    [
      "a password without user",
      { password: "p" },
      /registries\[0\]\.username.*without a user name/,
    ],
    ["a file name for a certificate", { ca: "/etc/ca.pem" }, /registries\[0\]\.ca.*no PEM/],
    [
      "a broken certificate",
      { ca: ca.replace(/\nMII.{20}/, "\nMII") },
      /certificate 1 of 1 cannot/,
    ],
    ["insecure and certificates", { insecure: true, ca }, /registries\[0\]\.insecure/],
    ["an unknown key", { mirror: "x" }, /registries\[0\]\.mirror/],
  ] as const) {
    it(`refuses ${what}`, () => {
      assert.throws(
        () => read({ registries: [{ host: "r.test", ...entry }] }),
        (error) => isCodedError(error) && message.test(error.message),
      );
    });
  }

  it("refuses a host twice", () => {
    assert.throws(() => read({ registries: [{ host: "r.test" }, { host: "r.test" }] }), {
      message: 'Cannot use registries[1].host: "r.test" has an entry already',
    });
  });
});

describe("decodeProviderConfig(), of the section images", () => {
  it("has a cache and proxies", () => {
    const images = {
      cache: { nfs: "10.20.0.2:/data", options: ["vers=4.1", "nconnect=4"] },
      proxy: { https: "http://proxy.test:3128", no: [".local", "10.0.0.0/8"] },
    };
    assert.deepEqual(read({ images }).images, {
      cache: { path: "/var/cache/images", ...images.cache },
      proxy: { HTTPS_PROXY: "http://proxy.test:3128", NO_PROXY: ".local,10.0.0.0/8" },
    });
    assert.deepEqual(read({ images: { cache: { path: "/mnt/x" } } }).images, {
      cache: { path: "/mnt/x" },
    });
    assert.equal(read({}).images, undefined);
  });

  it("is the original's imageCache keys too", () => {
    const cellConfig = {
      imageCacheEndpoint: "10.20.0.2:/data",
      imageCacheMountOpts: "-o ro -o vers=4.1",
      "itzoFlag-v": "5",
    };
    const { config, notices } = checkProviderConfig({
      cloud: { local: {} },
      cells: { cellConfig },
    });
    const cache = { path: "/nfs", nfs: "10.20.0.2:/data", options: ["vers=4.1"] };
    assert.deepEqual(config?.images, { cache });
    assert.deepEqual(
      notices.map(({ path }) => path.join(".")),
      ["cells.cellConfig.itzoFlag-v"],
    );
    assert.throws(() => read({ cells: { cellConfig }, images: { cache } }), /sets the same/);
  });

  for (const [what, images, message] of [
    ["a cache that is nowhere", { cache: {} }, /neither nfs nor path/],
    ["a relative path", { cache: { path: "x" } }, /images\.cache\.path.*not the absolute path/],
    ["a share without a path", { cache: { nfs: "server" } }, /images\.cache\.nfs.*is not <server>/],
    [
      "a share to write to",
      { cache: { nfs: "s:/d", options: ["rw"] } },
      /"rw" is not a valid option/,
    ],
    [
      "options in one word",
      { cache: { nfs: "s:/d", options: ["a,rw"] } },
      /"a,rw" is not a valid option/,
    ],
    [
      "options without a share",
      { cache: { path: "/x", options: ["vers=4"] } },
      /need images\.cache\.nfs/,
    ],
    [
      "a proxy that is not a URL",
      { proxy: { http: "proxy:3128" } },
      /images\.proxy\.http.*not a valid URL/,
    ],
  ] as const) {
    it(`refuses ${what}`, () => {
      assert.throws(
        () => read({ images }),
        (error) =>
          isCodedError(error) && error.code === "CONFIG_INVALID" && message.test(error.message),
      );
    });
  }
});
