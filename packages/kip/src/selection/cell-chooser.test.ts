import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isCodedError } from "@kip/base";
import { growth } from "@kip/base/testing";
import type { CapacityScope, CloudDriver } from "@kip/cloud";
import { podWith } from "@kip/k8s-types/testing";
import { CellChooser, type CellDefaults, type CellRequest } from "./cell-chooser.ts";
import type { Placement } from "./shortages.ts";

const driver = {
  instanceTypes: async () => [
    {
      name: "local.small",
      cpuMilli: 1000,
      memoryBytes: 2 ** 30,
      gpus: 0,
      pricePerHour: { "on-demand": 0.5 },
    },
    {
      name: "local.spot",
      cpuMilli: 2000,
      memoryBytes: 2 ** 30,
      gpus: 0,
      pricePerHour: { spot: 0.2, dedicated: 9 },
    },
    {
      name: "local.arm",
      cpuMilli: 1000,
      memoryBytes: 2 ** 30,
      gpus: 0,
      architecture: "arm64",
      pricePerHour: { "on-demand": 0.1 },
    },
  ],
  zone: "here",
  resolveImage: async (
    { id = "image" }: Readonly<Record<string, string>>,
    architecture = "amd64",
  ) => (architecture === "amd64" ? id : `${id} for ${architecture}`),
} as unknown as CloudDriver; // the calls that are made

const defaults: CellDefaults = {
  nodeName: "node",
  controllerID: "controller",
  defaultInstanceType: undefined,
  defaultVolumeBytes: 5 * 2 ** 30,
  imageSpec: {},
  bootImages: { old: { id: "image-1" } },
  privateIPOnly: false,
};
const chooser = new CellChooser(driver, () => defaults);

/** The choice for a pod with these annotations. */
async function choose(annotations: Record<string, string>) {
  const pod = { metadata: { annotations }, spec: { containers: [] } };
  return await chooser.choose({ pod } as unknown as CellRequest); // the fields that are read
}

async function isRefused(annotations: Record<string, string>, code: string): Promise<void> {
  await assert.rejects(choose(annotations), (error) => {
    // The error becomes an event of the pod.
    return isCodedError(error) && error.code === code && String(error).length < 500;
  });
}

describe("CellChooser.sizeOf()", () => {
  it("is what the type of the pod's cell offers, with the disk that the pod wants", async () => {
    const annotations = { "pod.elotl.co/volume-size": "7Gi" };
    const pod = podWith({ metadata: { annotations } });
    const size = { cpu: "1000m", memory: "1Gi", "ephemeral-storage": "7Gi" };
    assert.deepEqual(await chooser.sizeOf(pod), size);
    assert.deepEqual(await chooser.sizeOf(pod, "local.small"), size);
    assert.equal(await chooser.sizeOf(pod, "local.gone"), undefined);
    const none = podWith({ metadata: { annotations: { "pod.elotl.co/instance-type": "none" } } });
    assert.equal(await chooser.sizeOf(none), undefined);
  });
});

describe("CellChooser, with a cloud of several zones", () => {
  const zones = ["a", "b", "c"];
  const several = new CellChooser(
    {
      ...driver,
      zone: "a",
      zones,
      instanceTypes: async () => [
        { ...(await driver.instanceTypes())[0], zones: ["b", "c"] },
        {
          ...(await driver.instanceTypes())[0],
          name: "local.dear",
          pricePerHour: { "on-demand": 1 },
        },
      ],
    } as unknown as CloudDriver, // the calls that are made
    () => defaults,
  );
  const choice = async (
    annotations: Readonly<Record<string, string>>,
    unavailable: readonly CapacityScope[] = [],
  ) => {
    const request = { pod: podWith({ metadata: { annotations } }), unavailable };
    const spec = await several.choose(request as unknown as CellRequest); // the fields that are read
    const placement = await several.placementOf(request.pod, unavailable);
    assert.deepEqual([placement.instanceType, placement.zone], [spec.instanceType, spec.zone]);
    return [spec.instanceType, spec.zone];
  };

  it("takes the first zone that the cheapest type is in, or that of the annotation", async () => {
    assert.deepEqual(await choice({}), ["local.small", "b"]);
    assert.deepEqual(await choice({ "pod.elotl.co/zone": "c" }), ["local.small", "c"]);
    assert.deepEqual(await choice({ "pod.elotl.co/zone": "a" }), ["local.dear", "a"]);
    await assert.rejects(choice({ "pod.elotl.co/zone": "d" }), {
      code: "ANNOTATION_INVALID",
      message: /machines are in zones "a", "b", "c", not in "d"/,
    });
  });

  it("moves to another zone, then to another type, where there is no capacity", async () => {
    const small = { instanceType: "local.small" };
    assert.deepEqual(await choice({}, [{ zone: "b" }]), ["local.small", "c"]);
    assert.deepEqual(await choice({}, [{ ...small, zone: "b" }]), ["local.small", "c"]);
    assert.deepEqual(await choice({}, [small]), ["local.dear", "a"]);
    assert.deepEqual(await choice({}, [{ zone: "b" }, { zone: "c" }]), ["local.dear", "a"]);
  });
});

describe("CellChooser.placementsOf()", () => {
  const all = async (annotations: Readonly<Record<string, string>>, own = chooser) =>
    [...(await own.placementsOf(podWith({ metadata: { annotations } })))].map(
      ({ instanceType, zone, launchType }) => `${instanceType} ${zone} ${launchType}`,
    );

  it("names what is chosen where there is no capacity of those before, up to the price limit", async () => {
    const types = [
      { name: "dear", pricePerHour: { "on-demand": 3, spot: 2 } },
      { name: "cheap", pricePerHour: { "on-demand": 2, spot: 1 }, zones: ["b", "c"] },
    ].map((each) => ({ cpuMilli: 1000, memoryBytes: 2 ** 30, gpus: 0, ...each }));
    const zones = ["a", "b", "c"];
    const own = new CellChooser(
      { ...driver, zone: "a", zones, instanceTypes: async () => types },
      () => ({ ...defaults, defaultInstanceType: "dear" }),
    );
    for (const [limit, count] of [
      ["9", 10],
      ["2.5", 3],
    ] as const) {
      const annotations = {
        "pod.elotl.co/launch-type": "spot-or-on-demand",
        "pod.elotl.co/max-price-per-hour": limit,
      };
      const short: Placement[] = [];
      const pod = podWith({ metadata: { annotations } });
      const next = async (): Promise<Placement | undefined> =>
        await own.placementOf(pod, short).catch(() => undefined);
      for (let each = await next(); each; each = await next()) short.push(each);
      const seen = new Set(await all(annotations, own));
      assert.deepEqual(
        [...seen],
        short.map(({ instanceType, zone, launchType }) => `${instanceType} ${zone} ${launchType}`),
      );
      assert.equal(seen.size, count);
    }
  });

  it("names none if no machine fits, or for at most the price", async () => {
    assert.deepEqual(await all({ "pod.elotl.co/instance-type": "other" }), []);
    assert.deepEqual(await all({ "pod.elotl.co/max-price-per-hour": "0.1" }), []);
  });
});

describe("CellChooser.choose()", () => {
  it("compares no type with those of others without capacity", async () => {
    const grown = await growth(async (size) => {
      const types = Array.from({ length: size }, (_, n) => ({
        name: `type-${n}`,
        cpuMilli: 1000,
        memoryBytes: 2 ** 30,
        gpus: 0,
        pricePerHour: { "on-demand": 1 + n },
      }));
      const own = new CellChooser({ ...driver, instanceTypes: async () => types }, () => defaults);
      const unavailable = types.slice(1).map(({ name }) => ({ instanceType: name }));
      await own.placementOf(podWith({}), unavailable);
    }, 4000);
    assert.ok(grown < 40, `${grown}`);
  });

  it("takes type and disk from the annotations", async () => {
    const { instanceType, rootDiskBytes } = await choose({
      "pod.elotl.co/instance-type": "local.*",
      "pod.elotl.co/volume-size": "7Gi",
    });
    assert.deepEqual([instanceType, rootDiskBytes], ["local.small", 7 * 2 ** 30]);
  });

  it("takes spot machines, and others where there are none, or none left", async () => {
    const annotations = { "pod.elotl.co/launch-type": "Spot-or-on-demand" };
    const spot = await choose(annotations);
    assert.deepEqual([spot.instanceType, spot.launchType], ["local.spot", "spot"]);
    const pod = { metadata: { annotations }, spec: { containers: [] } };
    const request = { pod, unavailable: [{ launchType: "spot" }] } as unknown as CellRequest; // the fields that are read
    const other = await chooser.choose(request);
    assert.deepEqual([other.instanceType, other.launchType], ["local.small", "on-demand"]);
  });

  it("pays no more than the annotation allows", async () => {
    const price = "pod.elotl.co/max-price-per-hour";
    assert.equal((await choose({ [price]: "0.5" })).pricePerHour, 0.5);
    await assert.rejects(choose({ [price]: "0.49" }), {
      code: "PRICE_ABOVE_LIMIT",
      message:
        "Cannot start a cell for at most $0.49 an hour: the cheapest that fits, local.small, costs $0.5",
    });
  });

  it("takes arm64 for pods that name no processor where the cloud has nothing else", async () => {
    const types = (await driver.instanceTypes()).filter(({ name }) => name === "local.arm");
    const armAlone = { ...driver, instanceTypes: async () => types } as unknown as CloudDriver; // the calls that are made
    const pod = podWith({});
    const request = { pod } as unknown as CellRequest; // the fields that are read
    const { instanceType } = await new CellChooser(armAlone, () => defaults).choose(request);
    assert.equal(instanceType, "local.arm");
    const named = new CellChooser(armAlone, () => ({ ...defaults, architecture: "amd64" }));
    await assert.rejects(named.choose(request), { code: "NO_INSTANCE_TYPE_FITS" });
  });

  it("takes a type that is named in full with its own processor, unless the pod asks for another", async () => {
    const named = { "pod.elotl.co/instance-type": "local.arm" };
    const { instanceType, image } = await choose(named);
    assert.deepEqual([instanceType, image], ["local.arm", "image for arm64"]);
    const ofNode = new CellChooser(driver, () => ({ ...defaults, architecture: "amd64" }));
    const pod = { metadata: { annotations: named }, spec: { containers: [] } };
    const request = { pod } as unknown as CellRequest; // the fields that are read
    assert.equal((await ofNode.choose(request)).instanceType, "local.arm");
    await isRefused({ ...named, "pod.elotl.co/architecture": "amd64" }, "NO_INSTANCE_TYPE_FITS");
    await isRefused({ "pod.elotl.co/instance-type": "*.arm" }, "NO_INSTANCE_TYPE_FITS");
  });

  it("takes the processor of the default type, also when that is sold out", async () => {
    const arm = new CellChooser(driver, () => ({ ...defaults, defaultInstanceType: "local.arm" }));
    const pod = { metadata: {}, spec: { containers: [] } };
    const request = { pod } as unknown as CellRequest; // the fields that are read
    assert.equal((await arm.choose(request)).instanceType, "local.arm");
    const unavailable = [{ instanceType: "local.arm" }];
    await assert.rejects(arm.choose({ ...request, unavailable }), {
      code: "NO_INSTANCE_TYPE_FITS",
    });
  });

  it("takes processor, image and zone from the annotations", async () => {
    const arm = await choose({ "pod.elotl.co/architecture": "arm64", "pod.elotl.co/zone": "here" });
    assert.equal(arm.instanceType, "local.arm");
    assert.equal(arm.image, "image for arm64", "an image for the type's processor");
    const exact = {
      "pod.elotl.co/architecture": "arm64",
      "pod.elotl.co/instance-type": "local.arm",
    };
    assert.equal((await choose(exact)).instanceType, "local.arm");
    assert.equal((await choose({ "pod.elotl.co/boot-image": "old" })).image, "image-1");
    for (const [annotations, message] of [
      [{ "pod.elotl.co/boot-image": "new" }, /there is no image "new" in cells.bootImages/],
      [{ "pod.elotl.co/zone": "there" }, /machines are in zone "here", not in "there"/],
    ] as const)
      await assert.rejects(choose(annotations), { code: "ANNOTATION_INVALID", message });
  });

  it("takes the processors that the node's label names, if the pod names none", async () => {
    const arm = new CellChooser(driver, () => ({ ...defaults, architecture: "arm64" }));
    const chosen = async (nodeSelector: Readonly<Record<string, string>>): Promise<string> => {
      const pod = podWith({ spec: { nodeSelector, containers: [] } });
      return (await arm.choose({ pod } as unknown as CellRequest)).instanceType; // the fields that are read
    };
    assert.equal(await chosen({}), "local.arm");
    assert.equal(await chosen({ "node.elotl.co/arch-amd64": "" }), "local.small");
  });

  it("takes a type with GPUs for another resource that no other type has", async () => {
    const [small] = await driver.instanceTypes();
    const types = [small, { ...small, name: "local.gpu", gpus: 1 }];
    const gpus = { ...driver, instanceTypes: async () => types } as unknown as CloudDriver; // the calls that are made
    const extendedResources = { "local.gpu": { "example.com/nic": "1" } };
    const limits = { "example.com/nic": "1" };
    const resources = { limits, requests: limits };
    const pod = podWith({ spec: { containers: [{ name: "main", resources }] } });
    const { instanceType } = await new CellChooser(gpus, () => ({
      ...defaults,
      extendedResources,
    })).choose({ pod } as unknown as CellRequest); // the fields that are read
    assert.equal(instanceType, "local.gpu");
  });

  it("makes sizes in between, where the cloud sells them", async () => {
    const price = { perCpu: 0.01, perGiB: 0.01 };
    const family = {
      name: "n2",
      namePrefix: "n2-custom",
      cpus: [2, 4],
      minMemoryPerCpu: 2 ** 29,
      maxMemoryPerCpu: 2 ** 33,
      memoryStep: 2 ** 28,
      architecture: "amd64",
      pricePerHour: { "on-demand": price },
    } as const;
    const sold = { ...driver, customFamilies: async () => [family] } as unknown as CloudDriver; // the calls that are made
    const custom = new CellChooser(sold, () => defaults);
    const limits = { cpu: "2", memory: "3Gi" };
    const pod = podWith({ spec: { containers: [{ name: "main", resources: { limits } }] } });
    const { instanceType } = await custom.choose({ pod } as unknown as CellRequest); // the fields that are read
    assert.match(instanceType, /^n2-custom-2-\d+$/);
    const size = await custom.sizeOf(pod, instanceType);
    assert.equal(size?.["cpu"], "2000m");
  });

  it("buys Macs on dedicated hosts alone", async () => {
    const annotations = {
      "pod.elotl.co/instance-type": "mac1.metal",
      "pod.elotl.co/launch-type": "spot",
    };
    await assert.rejects(choose(annotations), /launch type dedicated/);
  });

  it("adds what the pod requests of ephemeral storage to the disk", async () => {
    const requests = { "ephemeral-storage": "3Gi" };
    const pod = podWith({ spec: { containers: [{ name: "main", resources: { requests } }] } });
    const { rootDiskBytes } = await chooser.choose({ pod } as unknown as CellRequest); // the fields that are read
    assert.equal(rootDiskBytes, 8 * 2 ** 30);
  });

  it("refuses an instance type that is too long", async () => {
    for (const letter of ["a", "*"])
      await isRefused({ "pod.elotl.co/instance-type": letter.repeat(254) }, "ANNOTATION_INVALID");
  });

  it("refuses a size that no disk has", async () => {
    for (const size of ["0", "-5Gi", "9E", "0e999", "much"])
      await isRefused({ "pod.elotl.co/volume-size": size }, "ANNOTATION_INVALID");
  });

  it("takes linear time for annotations of the largest size, and quotes little of them", async () => {
    for (const [name, text, code] of [
      ["pod.elotl.co/instance-type", "*a", "ANNOTATION_INVALID"],
      ["pod.elotl.co/launch-type", "x", "ANNOTATION_INVALID"],
      ["pod.elotl.co/volume-size", "1", "ANNOTATION_INVALID"],
    ] as const) {
      const read = async (size: number): Promise<void> =>
        await isRefused({ [name]: `${text.repeat(size / text.length)}x` }, code);
      assert.ok((await growth(read, 256 * 1024)) < 40, name);
    }
  });

  it("does not return to an earlier star of a pattern", async () => {
    await isRefused(
      { "pod.elotl.co/instance-type": `${"*".repeat(60)}z` },
      "NO_INSTANCE_TYPE_FITS",
    );
  });
});
