import assert from "node:assert/strict";
import { clauseWith, type ConformanceTopic } from "../conformance-case.ts";

const MiB = 2 ** 20;

/** The root disk. */
export const disks: ConformanceTopic = {
  name: "disks",
  cases: [
    clauseWith(
      ["guest"],
      "gives a root disk as large as asked for, and never smaller than the image's",
      async (bench) => {
        const image = await bench.cloud.resolveImage(bench.guest.imageSpec);
        const rootBytesOf = async (rootDiskBytes: number): Promise<number> => {
          const instance = await bench.running({ image, rootDiskBytes });
          return (await bench.seen(instance, (view) => view.rootBytes > 0)).rootBytes;
        };
        const own = await rootBytesOf(0);
        const [less, more] = await Promise.all([
          rootBytesOf(Math.floor(own / 2)),
          rootBytesOf(own + 64 * MiB),
        ]);
        assert.equal(less, own);
        assert.ok(more >= own + 64 * MiB, `${more} bytes`);
      },
    ),
  ],
};
