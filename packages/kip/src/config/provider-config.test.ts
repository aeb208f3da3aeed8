import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { isCodedError } from "@kip/base";
import { CertificateAuthority } from "@kip/pki";
import { keyRows } from "./keys/key-rows.ts";
import { providerKeys } from "./keys/provider-keys.ts";
import { pathText } from "./keys/read-keys.ts";
import { checkProviderConfig, decodeProviderConfig } from "./provider-config.ts";

const base = { cloud: { local: {} } };

function problemsOf(content: object): readonly string[] {
  const { problems } = checkProviderConfig(content);
  return problems.map(({ path, message }) => `${pathText(path)}: ${message}`);
}

const local = (settings: object): object => ({ cloud: { local: settings } });
const registry = (entry: object): object => ({ registries: [{ host: "r.test", ...entry }] });
const cellConfig = (more: object): object => ({
  cells: { cellConfig: { imageCacheEndpoint: "s:/d", ...more } },
});
const standby = (more: object): object => ({
  cells: { standbyCells: [{ instanceType: "t3.nano", count: 1, ...more }] },
});
const { certificate } = await CertificateAuthority.create({ commonName: "ca", validMs: 60_000 });

/** Sample values for the test that each key has an effect. */
const samples: Readonly<Record<string, object>> = {
  "cloud.local": { cloud: { local: { stateDir: "/x" } } },
  "cloud.local.stateDir": local({ stateDir: "/x" }),
  "cloud.local.imagesDir": local({ imagesDir: "/x" }),
  "cloud.local.namespace": local({ namespace: "x" }),
  "cloud.local.range": local({ range: "10.0.0.0/16" }),
  "cloud.local.ipv6Range": local({ ipv6Range: "fd00::/64" }),
  "cloud.local.architectures": local({ architectures: ["amd64", "arm64"] }),
  "cloud.local.internet": local({ internet: "off" }),
  "cloud.local.hostPorts": local({ hostPorts: [1] }),
  "cloud.local.serviceRanges": local({ serviceRanges: ["10.0.0.0/16"] }),
  "cloud.local.hostServices": local({ hostServices: true }),
  "cloud.local.nodePortAddresses": local({ nodePortAddresses: ["127.0.0.1"] }),
  "cloud.local.dnsService": local({ dnsService: "10.96.0.10" }),
  "cloud.local.templates": local({ templates: false }),
  "cloud.local.templatesDir": local({ templatesDir: "/x" }),
  "cloud.local.faultInjection": local({ faultInjection: true }),
  "cells.bootImageSpec": { cells: { bootImageSpec: { id: "x" } } },
  "cells.bootImages": { cells: { bootImages: { old: { id: "x" } } } },
  "cells.defaultInstanceType": { cells: { defaultInstanceType: "t3.nano" } },
  "cells.defaultVolumeSize": { cells: { defaultVolumeSize: "6Gi" } },
  "cells.nametag": { cells: { nametag: "x" } },
  "cells.extendedResources": { cells: { extendedResources: { "*": { "example.com/x": 1 } } } },
  "cells.privateIPOnly": { cells: { privateIPOnly: true } },
  "cells.healthcheck.status.healthyTimeout": {
    cells: { healthcheck: { status: { healthyTimeout: 1.5 } } },
  },
  "cells.healthcheck.cloudAPI.healthyTimeout": {
    cells: { healthcheck: { cloudAPI: { healthyTimeout: 1.5 } } },
  },
  "cells.healthcheck.cloudAPI.interval": {
    cells: { healthcheck: { cloudAPI: { interval: 10 } } },
  },
  "cells.cellConfig.imageCacheEndpoint": cellConfig({}),
  "cells.cellConfig.imageCacheMountDir": cellConfig({ imageCacheMountDir: "/x" }),
  "cells.cellConfig.imageCacheMountOpts": cellConfig({ imageCacheMountOpts: "vers=4.1" }),
  "cells.cellConfig.<other>": cellConfig({ "itzoFlag-v": "5" }),
  "cells.standbyCells[].instanceType": standby({ instanceType: "t3.micro" }),
  "cells.standbyCells[].count": standby({ count: 2 }),
  "cells.standbyCells[].spot": standby({ spot: true }),
  "cells.standbyCells[].dedicated": standby({ dedicated: true }),
  "cells.standbyCells[].zone": standby({ zone: "a" }),
  "cells.standbyCells[].privateIPOnly": standby({ privateIPOnly: true }),
  "cells.standbyCells[].bootImage": {
    cells: {
      standbyCells: [{ instanceType: "t3.nano", count: 1, bootImage: "old" }],
      bootImages: { old: { id: "x" } },
    },
  },
  "cells.cloudInitFile": { cells: { cloudInitFile: "/x" } },
  "cells.itzo": { cells: { itzo: { version: "latest", url: "https://x.test" } } },
  "cells.extraCIDRs": { cells: { extraCIDRs: ["10.0.0.0/8"] } },
  "cells.extraSecurityGroups": { cells: { extraSecurityGroups: ["sg-1"] } },
  "cells.statusInterval": { cells: { statusInterval: 0 } },
  "cells.defaultIAMPermissions": { cells: { defaultIAMPermissions: "x" } },
  "cells.useCloudParameterStore": { cells: { useCloudParameterStore: true } },
  "kubelet.cpu": { kubelet: { cpu: 1 } },
  "kubelet.memory": { kubelet: { memory: "1Gi" } },
  "kubelet.pods": { kubelet: { pods: 1 } },
  "kubelet.capacity": { kubelet: { capacity: { "nvidia.com/gpu": 1 } } },
  "kubelet.labels": { kubelet: { labels: { rack: "" } } },
  "kubelet.containerLogMaxSize": { kubelet: { containerLogMaxSize: "1Mi" } },
  "kubelet.containerLogMaxFiles": { kubelet: { containerLogMaxFiles: 2 } },
  "kubelet.seccompProfileRoot": { kubelet: { seccompProfileRoot: "/x" } },
  "kubelet.allowedUnsafeSysctls": { kubelet: { allowedUnsafeSysctls: ["net.*"] } },
  "registries[].host": registry({}),
  "registries[].endpoint": registry({ endpoint: "https://x.test" }),
  "registries[].insecure": registry({ insecure: true }),
  "registries[].mirrors": registry({ mirrors: ["https://x.test"] }),
  "registries[].username": registry({ username: "u", password: "p" }),
  "registries[].password": registry({ username: "u", password: "q" }),
  "registries[].ca": registry({ ca: certificate }),
  "images.cache.nfs": { images: { cache: { nfs: "s:/d" } } },
  "images.cache.path": { images: { cache: { path: "/x" } } },
  "images.cache.options": { images: { cache: { nfs: "s:/d", options: ["vers=4.1"] } } },
  "images.dockerConfig": { images: { dockerConfig: "/x" } },
  "images.proxy.http": { images: { proxy: { http: "http://x.test" } } },
  "images.proxy.https": { images: { proxy: { https: "http://x.test" } } },
  "images.proxy.no": { images: { proxy: { https: "http://x.test", no: ["x"] } } },
  "testing.controllerID": { testing: { controllerID: "x" } },
  etcd: { etcd: { internal: { dataDir: "/x" }, client: { endpoints: ["x"] } } },
};

/** The configuration to compare with, if a key requires another one. */
const around: Readonly<Record<string, object>> = {
  "cells.cellConfig.imageCacheMountDir": { ...base, ...cellConfig({}) },
  "cells.cellConfig.imageCacheMountOpts": { ...base, ...cellConfig({}) },
  "cells.standbyCells[].spot": { ...base, ...standby({}) },
  "cells.standbyCells[].dedicated": { ...base, ...standby({}) },
  "cells.standbyCells[].zone": { ...base, ...standby({}) },
  "cells.standbyCells[].privateIPOnly": { ...base, ...standby({}) },
  "cells.standbyCells[].bootImage": {
    ...base,
    cells: {
      standbyCells: [{ instanceType: "t3.nano", count: 1 }],
      bootImages: { old: { id: "x" } },
    },
  },
  "registries[].endpoint": { ...base, ...registry({}) },
  "registries[].insecure": { ...base, ...registry({}) },
  "registries[].mirrors": { ...base, ...registry({}) },
  "registries[].username": { ...base, ...registry({}) },
  "registries[].password": { ...base, ...registry({ username: "u", password: "p" }) },
  "registries[].ca": { ...base, ...registry({}) },
  "images.cache.options": { ...base, images: { cache: { nfs: "s:/d" } } },
  "images.proxy.no": { ...base, images: { proxy: { https: "http://x.test" } } },
};

describe("decodeProviderConfig()", () => {
  it("applies the original's defaults", () => {
    const config = decodeProviderConfig({ cloud: { local: {} } });
    assert.equal(config.defaultVolumeBytes, 5 * 2 ** 30);
    assert.deepEqual(config.capacity, {});
    assert.equal(config.unreachableLimitMs, 90_000);
    assert.deepEqual(config.cloud, { name: "local", local: {}, aws: {} });
  });

  it("takes the node's capacity by either key, which must not differ", () => {
    const kubelet = { cpu: 4, pods: "40", capacity: { pods: "40", "nvidia.com/gpu": 1 } };
    const { capacity } = decodeProviderConfig({ cloud: { local: {} }, kubelet });
    assert.deepEqual(capacity, { cpu: "4", pods: "40", "nvidia.com/gpu": "1" });
    const other = { pods: "30", capacity: { pods: "40" } };
    assert.deepEqual(problemsOf({ cloud: { local: {} }, kubelet: other }), [
      "kubelet.pods: it is 30, and kubelet.capacity.pods is 40",
    ]);
  });

  it("takes extended resources of instance types, and refuses names of other resources", () => {
    const read = (resources: object) =>
      decodeProviderConfig({ cloud: { local: {} }, cells: { extendedResources: resources } })
        .extendedResources;
    assert.deepEqual(read({ "g5.*": { "example.com/nic": 2 } }), {
      "g5.*": { "example.com/nic": "2" },
    });
    for (const wrong of ["cpu", "nic", "kubernetes.io/batch"])
      assert.throws(() => read({ "*": { [wrong]: 1 } }), { code: "CONFIG_INVALID" });
  });

  it("takes a kubelet's limits of logs, and refuses those that a cell cannot keep", () => {
    const read = (kubelet: object) => decodeProviderConfig({ cloud: { local: {} }, kubelet }).logs;
    assert.equal(read({ cpu: 1 }), undefined);
    const both = { containerLogMaxSize: "1Mi", containerLogMaxFiles: 3 };
    assert.deepEqual(read(both), { maxFileBytes: 2 ** 20, maxFiles: 3 });
    const files = { containerLogMaxFiles: 7 };
    assert.deepEqual(read(files), { maxFileBytes: 10 * 2 ** 20, maxFiles: 7 });
    for (const wrong of [
      { containerLogMaxSize: "1Ki" },
      { containerLogMaxSize: "-1" },
      { containerLogMaxFiles: 1 },
      { containerLogMaxFiles: 2.5 },
    ])
      assert.throws(() => read(wrong), /kubelet\.containerLogMax/, JSON.stringify(wrong));
  });

  it("has the kubelet's folder of seccomp profiles, or another absolute one", () => {
    const root = (kubelet?: object): string =>
      decodeProviderConfig({ cloud: { local: {} }, kubelet }).seccompProfileRoot;
    assert.equal(root(), "/var/lib/kubelet/seccomp");
    assert.equal(root({ seccompProfileRoot: "/etc/kip/seccomp" }), "/etc/kip/seccomp");
    assert.throws(() => root({ seccompProfileRoot: "seccomp" }), {
      code: "CONFIG_INVALID",
      message: 'Cannot use kubelet.seccompProfileRoot: "seccomp" is not an absolute path',
    });
  });

  it("takes the sysctls that a kubelet would allow, and no others", () => {
    const problems = (...allowedUnsafeSysctls: readonly string[]) =>
      problemsOf({ cloud: { local: {} }, kubelet: { allowedUnsafeSysctls } });
    const taken = ["kernel.msg*", "kernel.shmmax", "kernel.sem", "fs.mqueue.*", "net.*"];
    assert.deepEqual(problems(...taken, "net/ipv4/conf/eth0.1/forwarding", "net.core.so*"), []);
    for (const unknown of [
      "*",
      "vm.*",
      "net*",
      "kernel.shmm*",
      "kernel.domainname",
      "vm/swappiness",
    ])
      assert.deepEqual(problems(unknown), [
        `kubelet.allowedUnsafeSysctls[0]: "${unknown}" is not known to be namespaced`,
      ]);
    for (const wrong of ["", "net.*.x", "net.ipv4.**", "NET.core", `net.${"a".repeat(250)}`])
      assert.match(
        problems("net.*", wrong).join(),
        /^kubelet\.allowedUnsafeSysctls\[1\]: .* is not the name/,
      );
  });

  it("names the nearest key for an unknown one", () => {
    assert.throws(
      () => decodeProviderConfig({ cloud: { local: {} }, cells: { defaultInstanceTyp: "x" } }),
      (error) =>
        isCodedError(error) &&
        error.message.includes("cells.defaultInstanceTyp") &&
        error.remedy === "Did you mean cells.defaultInstanceType?",
    );
  });

  it("refuses two clouds and none", () => {
    for (const cloud of [{}, { aws: {}, gce: {} }]) {
      assert.throws(() => decodeProviderConfig({ cloud }), { code: "CONFIG_INVALID" });
    }
  });

  it("reads a section without keys, as YAML has it with nothing behind the colon", () => {
    const { cloud } = decodeProviderConfig({ cloud: { local: null }, cells: null });
    assert.deepEqual(cloud, { name: "local", local: {}, aws: {} });
  });

  const conflicting: readonly (readonly [object, readonly string[]])[] = [
    [{ cloud: { local: {}, aws: {} } }, ["cloud.aws: there is cloud.local already"]],
    [
      { cloud: { aws: { accessKeyID: "a" } } },
      ["cloud.aws.accessKeyID: it needs cloud.aws.secretAccessKey"],
    ],
    [
      { cloud: { aws: { insecureTLSSkipVerify: true } } },
      [
        "cloud.aws.insecureTLSSkipVerify: it needs cloud.aws.endpointURL: AWS' own API has valid certificates",
      ],
    ],
    [
      { cloud: { aws: { subnetID: "subnet-1", subnetIDs: ["subnet-2"] } } },
      ["cloud.aws.subnetID: cloud.aws.subnetIDs is given, too"],
    ],
    [
      { cells: { bootImageSpec: { owners: "self" } } },
      ["cells.bootImageSpec.owners: images of the local cloud have no such key"],
    ],
    [
      {
        cloud: { aws: {} },
        cells: {
          bootImageSpec: { imageIDs: "ami-1", id: "x" },
          bootImages: { old: { project: "x" } },
        },
      },
      [
        "cells.bootImageSpec.id: images of AWS have no such key",
        "cells.bootImages.old.project: images of AWS have no such key",
      ],
    ],
    [
      {
        cloud: {
          gce: { credentials: { clientEmail: "a", privateKey: "b" }, credentialsFile: "/x" },
        },
      },
      [
        "cloud.gce.credentials: cloud.gce.credentialsFile is given, too",
        "cloud.gce.credentials: it needs cloud.gce.projectID",
      ],
    ],
    [
      { cloud: { azure: { subnetName: "a", subscriptionID: "s", resourceGroup: "r" } } },
      [
        "cloud.azure.location: it is missing or blank",
        "cloud.azure.subnetName: it needs cloud.azure.virtualNetworkName",
      ],
    ],
    [
      {
        cells: {
          healthcheck: { status: { healthyTimeout: 1 }, cloudAPI: { interval: 10 } },
          standbyCells: [
            { instanceType: "t3.nano", count: 1, spot: true, dedicated: true },
            { instanceType: "t3.*", count: 1, bootImage: "old" },
          ],
        },
      },
      [
        "cells.healthcheck.cloudAPI: cells.healthcheck.status is given, too",
        "cells.standbyCells[0]: spot and dedicated exclude each other",
        "cells.standbyCells[1].instanceType: a pattern does not say which type to start",
        'cells.standbyCells[1].bootImage: there is no image "old" in cells.bootImages',
      ],
    ],
  ];
  for (const [content, problems] of conflicting)
    it(`finds what does not go together in ${JSON.stringify(content)}`, () => {
      assert.deepEqual(problemsOf({ cloud: { local: {} }, ...content }), problems);
    });

  it("takes what the original's own files have without quotes, and no other number", () => {
    const cells = {
      bootImageSpec: { owners: 689_494_258_501, filters: "name=elotl-kip-*" },
      itzo: { url: "s3://bucket", version: 532 },
      cellConfig: { "itzoFlag-use-anka": true },
    };
    const { bootImageSpec } = decodeProviderConfig({ cloud: { aws: {} }, cells });
    assert.deepEqual(bootImageSpec, { owners: "689494258501", filters: "name=elotl-kip-*" });
    // Of 012345678901, YAML says the first. Quotes keep the zero.
    for (const owners of [12_345_678_901, 1.5, true])
      assert.equal(
        problemsOf({ cloud: { aws: {} }, cells: { bootImageSpec: { owners } } }).length,
        1,
      );
  });

  it("refuses settings of the local cloud with which it does not start", () => {
    for (const settings of [
      { namespace: "n".repeat(12) },
      { namespace: "a/b" },
      { stateDir: "cells" },
      { imagesDir: "images" },
      { templatesDir: "templates" },
      { range: "10.0.0.0/23" },
      { range: "fd00::/64" },
      { ipv6Range: "10.0.0.0/16" },
      { ipv6Range: "fd00::/101" },
      { nodePortAddresses: ["::1"] },
    ])
      assert.equal(problemsOf(local(settings)).length, 1, JSON.stringify(settings));
  });

  it("takes up to 5000 standby cells of a kind", () => {
    const of = (count: number) => problemsOf({ ...base, ...standby({ count }) });
    assert.deepEqual(of(5000), []);
    assert.equal(of(5001).length, 1);
  });

  it("takes regions that the original refused", () => {
    for (const region of ["us-gov-west-1", "cn-north-1", "us-isob-east-1", "eusc-de-east-1"])
      assert.deepEqual(problemsOf({ cloud: { aws: { region } } }), []);
    assert.equal(problemsOf({ cloud: { aws: { region: "us-east-1a" } } }).length, 1);
  });
});

describe("checkProviderConfig()", () => {
  it("drops no key: each has an effect, or a notice that says what replaces it", () => {
    const none = ["apiVersion", "kind"];
    const paths = keyRows(providerKeys).map(({ path }) => path);
    const ofThisVersion = paths.filter((path) => !/^cloud\.(aws|gce|azure)/.test(path));
    for (const path of ofThisVersion.filter((each) => !none.includes(each))) {
      const before = checkProviderConfig(around[path] ?? base);
      const sample = samples[path];
      assert.ok(sample, `give a sample for ${path}`);
      const after = checkProviderConfig({ ...base, ...sample });
      assert.deepEqual(after.problems, [], path);
      const isSeen = !isDeepStrictEqual(after.config, before.config) || after.notices.length > 0;
      assert.ok(isSeen, `${path} has no effect`);
    }
  });

  it("takes labels of the node that the API server takes, and no others", () => {
    const long = "a".repeat(63);
    const labels = { a: "b", "example.com/rack": "", [`a.b/${long}`]: "A_1.x-9", [long]: long };
    const wrong = ["a b", "", "/a", "A.com/b", "a/b/c", "/b/c", "-a", `${long}a`];
    const of = (given: Readonly<Record<string, string>>) =>
      checkProviderConfig({ ...base, kubelet: { labels: given } }).problems;
    assert.deepEqual(of(labels), []);
    for (const key of wrong) assert.equal(of({ [key]: "x" }).length, 1, key);
    for (const text of ["a b", "-", "ä", `${long}a`]) assert.equal(of({ a: text }).length, 1, text);
  });

  it("finds all problems at once", () => {
    const { problems } = checkProviderConfig({
      cloud: { local: { hostPorts: [80, 0] } },
      cells: { nametag: "A_B", statusInterval: -1, extraCIDRs: ["10.0.0.0/33"], cpu: 1 },
      kubelet: { cpu: "much", labels: { rack: 7 } },
    });
    assert.deepEqual(
      problems.map(({ path }) => pathText(path)),
      [
        "cloud.local.hostPorts[1]",
        "cells.nametag",
        "cells.statusInterval",
        "cells.extraCIDRs[0]",
        "cells.cpu",
        "kubelet.cpu",
        "kubelet.labels.rack",
      ],
    );
    const remedies = problems.map(({ remedy }) => remedy);
    assert.equal(remedies[4], "Did you mean kubelet.cpu?");
    assert.equal(remedies[6], "Write it in quotes");
  });

  it("says which settings have no effect, once for each with all that is below", () => {
    const { notices } = checkProviderConfig({
      etcd: { internal: { dataDir: "/opt/milpa/data" } },
      cloud: { local: {} },
      cells: { itzo: {} },
    });
    assert.deepEqual(
      notices.map(({ path }) => pathText(path)),
      ["etcd", "cells.itzo"],
    );
    for (const { message } of notices) assert.match(message, /^it has no effect: /);
  });

  it("says which settings the local cloud does not have", () => {
    const cells = {
      extraCIDRs: ["10.0.0.0/8"],
      extraSecurityGroups: ["sg-1"],
      defaultIAMPermissions: "web",
    };
    const noticesOf = (cloud: object): readonly string[] =>
      checkProviderConfig({ cloud, cells }).notices.map(({ path }) => pathText(path));
    assert.deepEqual(
      noticesOf({ local: {} }),
      Object.keys(cells).map((name) => `cells.${name}`),
    );
    assert.deepEqual(noticesOf({ aws: {} }), []);
  });

  it("counts FILL_IN as blank, with a notice", () => {
    const { config, problems, notices } = checkProviderConfig({
      cloud: { local: {} },
      cells: { nametag: "FILL_IN", extraSecurityGroups: ["FILL_IN"] },
      registries: [{ host: "FILL_IN" }],
    });
    assert.equal(config, undefined);
    assert.deepEqual(
      problems.map(({ path, message }) => `${pathText(path)}: ${message}`),
      ["registries[0].host: it is missing or blank"],
    );
    assert.equal(notices.filter(({ message }) => message.startsWith("FILL_IN")).length, 3);
  });

  it("does not count FILL_IN as blank for the choice of a cloud", () => {
    const { problems } = checkProviderConfig({ cloud: { gce: "FILL_IN" } });
    assert.deepEqual(
      problems.map(({ path, message }) => `${pathText(path)}: ${message}`),
      ["cloud.gce: keys expected, found FILL_IN"],
    );
  });

  it("quotes no secret", () => {
    const { problems } = checkProviderConfig({
      cloud: { local: {}, aws: { secretAccessKey: 4711 } },
      registries: [
        { host: "u:hidden@r.test/x", endpoint: "https://u:hidden@r.test", password: 4711 },
        "hidden",
      ],
      images: { proxy: { http: "u:hidden@proxy.test:3128" } },
    });
    assert.equal(problems.length >= 6, true);
    assert.doesNotMatch(JSON.stringify(problems), /hidden|4711/);
  });
});
