import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import { checkCapacity, type CapacityFigures } from "./capacity.ts";

const MiB = 2 ** 20;
const plenty: CapacityFigures = {
  neededMemoryBytes: 512 * MiB,
  promisedMemoryBytes: 0,
  untouchedMemoryBytes: 0,
  memoryLimitBytes: 4096 * MiB,
  availableMemoryBytes: 4096 * MiB,
  neededDiskBytes: 1024 * MiB,
  unwrittenDiskBytes: 0,
  freeDiskBytes: 4096 * MiB,
  neededCpus: 1,
  promisedCpus: 0,
  cpuLimit: 32,
};
const check = (changes: Partial<CapacityFigures>) => () =>
  checkCapacity("local.micro", { ...plenty, ...changes });

describe("checkCapacity()", () => {
  it("lets the last machine that fits start", () => {
    check({
      promisedMemoryBytes: 3584 * MiB,
      untouchedMemoryBytes: 3584 * MiB,
      unwrittenDiskBytes: 3072 * MiB,
    })();
  });

  it("keeps to the limit", () => {
    assert.throws(
      check({ promisedMemoryBytes: 3585 * MiB }),
      (error) =>
        CloudError.is(error, "CLOUD_QUOTA") &&
        /needs 512 MiB of memory and 511 MiB of the limit of 4096 MiB are left/.test(String(error)),
    );
  });

  it("counts memory that machines were promised and have not touched yet", () => {
    assert.throws(
      check({ untouchedMemoryBytes: 3585 * MiB }),
      (error) =>
        CloudError.is(error, "CLOUD_NO_CAPACITY") &&
        /this machine has 511 MiB left/.test(String(error)),
    );
  });

  it("counts disk that machines have not written yet", () => {
    assert.throws(
      check({ unwrittenDiskBytes: 5000 * MiB }),
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
