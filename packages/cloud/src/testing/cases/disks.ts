import assert from "node:assert/strict";
import { nowhere } from "../bench/bench.ts";
import { clause, clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

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

    clauseWith(
      ["guest"],
      "lets the root disk of a running instance grow, and never shrink",
      async (bench) => {
        const { cloud } = bench;
        const image = await cloud.resolveImage(bench.guest.imageSpec);
        const instance = await bench.running({ image });
        const { id } = instance;
        const own = (await bench.seen(instance, (view) => view.rootBytes > 0)).rootBytes;
        const wanted = own + 64 * MiB;
        const other = await bench.open();
        await Promise.all([cloud.growRootDisk(id, wanted), other.growRootDisk(id, wanted)]);
        const grown = await bench.seen(instance, (view) => view.rootBytes >= wanted);
        for (const less of [own, wanted, MiB]) await other.growRootDisk(id, less);
        assert.equal((await bench.guest.look(instance)).rootBytes, grown.rootBytes);
        await cloud.growRootDisk(id, wanted + 64 * MiB);
        const { rootBytes } = await bench.seen(
          instance,
          (view) => view.rootBytes !== grown.rootBytes,
        );
        assert.ok(rootBytes >= wanted + 64 * MiB, `${rootBytes} bytes`);
      },
    ),

    clause("refuses to grow the root disk of what is gone, or to what cannot be", async (bench) => {
      const instance = await bench.running();
      const stranger = await bench.openAsStranger();
      for (const bad of [0, -1, MiB - 1, 1.5 * MiB + 0.5, Number.NaN])
        await bench.refuses("CLOUD_INVALID_REQUEST", bench.cloud.growRootDisk(instance.id, bad));
      await bench.refuses("CLOUD_NOT_FOUND", stranger.growRootDisk(instance.id, MiB));
      await bench.end(instance);
      for (const id of [instance.id, nowhere])
        await bench.refuses("CLOUD_NOT_FOUND", bench.cloud.growRootDisk(id, MiB));
    }),
  ],
};
