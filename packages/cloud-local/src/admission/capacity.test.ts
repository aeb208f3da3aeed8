import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import { checkCapacity, type CapacityFigures } from "./capacity.ts";

const MiB = 2 ** 20;
const plenty: CapacityFigures = {
  neededMemory: 512 * MiB,
  promisedMemory: 0,
  untouchedMemory: 0,
  memoryLimit: 4096 * MiB,
  availableMemory: 4096 * MiB,
  neededDisk: 1024 * MiB,
  unwrittenDisk: 0,
  freeDisk: 4096 * MiB,
  neededCpus: 1,
  promisedCpus: 0,
  cpuLimit: 32,
};
const check = (changes: Partial<CapacityFigures>) => () =>
  checkCapacity("local.micro", { ...plenty, ...changes });

describe("checkCapacity()", () => {
  it("lets the last machine that fits start", () => {
    check({ promisedMemory: 3584 * MiB, untouchedMemory: 3584 * MiB, unwrittenDisk: 3072 * MiB })();
  });

  it("keeps to the limit", () => {
    assert.throws(
      check({ promisedMemory: 3585 * MiB }),
      (error) =>
        CloudError.is(error, "CLOUD_QUOTA") &&
        /needs 512 MiB of memory and 511 MiB of the limit of 4096 MiB are left/.test(String(error)),
    );
  });

  it("counts memory that machines were promised and have not touched yet", () => {
    assert.throws(
      check({ untouchedMemory: 3585 * MiB }),
      (error) =>
        CloudError.is(error, "CLOUD_NO_CAPACITY") &&
        /this machine has 511 MiB left/.test(String(error)),
    );
  });

  it("counts disk that machines have not written yet", () => {
    assert.throws(
      check({ unwrittenDisk: 5000 * MiB }),
      (error) =>
        CloudError.is(error, "CLOUD_NO_CAPACITY") &&
        /needs 1024 MiB of free disk and this machine has 0 MiB left/.test(String(error)),
    );
  });

  it("lets idle machines share CPUs, up to a limit", () => {
    check({ promisedCpus: 31 })();
    assert.throws(
      check({ promisedCpus: 31, neededCpus: 2 }),
      (error) =>
        CloudError.is(error, "CLOUD_NO_CAPACITY") &&
        /needs 2 CPUs and 1 of the 32 that all machines may share/.test(String(error)),
    );
  });
});
