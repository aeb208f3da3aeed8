import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hostArchitecture } from "@kip/base";
import { localInstanceTypes } from "./catalog.ts";

const names = (cpus: number, gib: number) =>
  localInstanceTypes({ cpus, memoryBytes: gib * 2 ** 30 }).map((offer) => offer.name);

describe("localInstanceTypes()", () => {
  it("offers only what the machine can run", () => {
    assert.deepEqual(names(1, 1), ["local.nano"]);
    assert.deepEqual(names(2, 8), [
      "local.nano",
      "local.micro",
      "local.small",
      "local.medium",
      "local.large",
    ]);
    assert.deepEqual(names(2, 4).at(-1), "local.medium");
    assert.deepEqual(names(64, 256).at(-1), "local.8xlarge");
  });

  it("offers the same sizes with other processors", () => {
    const host = { cpus: 1, memoryBytes: 2 ** 30 };
    const [other = hostArchitecture] = (["amd64", "arm64"] as const).filter(
      (each) => each !== hostArchitecture,
    );
    const offers = localInstanceTypes(host, [hostArchitecture, other, other]);
    assert.deepEqual(
      offers.map(({ name, architecture }) => [name, architecture]),
      [
        ["local.nano", hostArchitecture],
        [`local-${other}.nano`, other],
      ],
    );
  });
});
