import assert from "node:assert/strict";
import { cloudErrorCode } from "../../errors.ts";
import { nowhere } from "../bench/bench.ts";
import { cloudLimits } from "../../limits.ts";
import { clauseWith, type ConformanceTopic } from "../bench/conformance-case.ts";

const MiB = 2 ** 20;

/** Disks that outlive instances. */
export const volumes: ConformanceTopic = {
  name: "volumes",
  cases: [
    clauseWith(
      ["volumes"],
      "makes one volume for one token, asked at once and again",
      async (bench) => {
        const { cloud } = bench;
        const tags = { "kip.elotl.co/claim": "größer 📦" };
        const asked = bench.volumeRequest({ sizeBytes: 4 * MiB + 1, tags });
        const other = await bench.open();
        const answers = await Promise.all([cloud.createVolume(asked), other.createVolume(asked)]);
        const [volume = assert.fail()] = answers.map((each) => bench.keep(each));
        assert.deepEqual(await cloud.createVolume({ ...asked, sizeBytes: 64 * MiB }), volume);
        assert.deepEqual(answers, [volume, volume]);
        assert.ok(volume.sizeBytes > 4 * MiB);
        assert.match(volume.serial, /^[A-Za-z0-9]{1,20}$/);
        assert.equal(volume.attachedTo, undefined);
        assert.deepEqual(volume.tags, tags);
        const listed = (await other.listVolumes()).filter(({ token }) => token === asked.token);
        assert.deepEqual(listed, [volume]);
      },
    ),

    clauseWith(["volumes"], "gives each volume a serial of its own", async (bench) => {
      const made = await Promise.all([bench.volume(), bench.volume(), bench.volume()]);
      assert.equal(new Set(made.map(({ serial }) => serial)).size, 3);
    }),

    clauseWith(["volumes"], "refuses a volume that cannot be", async (bench) => {
      for (const sizeBytes of [0, -1, MiB - 1, 1.5 * MiB + 0.5, Number.NaN]) {
        const request = bench.volumeRequest({ sizeBytes });
        await bench.refuses("CLOUD_INVALID_REQUEST", bench.cloud.createVolume(request));
      }
      const tags = { ["k".repeat(cloudLimits.tagKeyLength + 1)]: "" };
      const request = bench.volumeRequest({ tags });
      await bench.refuses("CLOUD_INVALID_REQUEST", bench.cloud.createVolume(request));
    }),

    clauseWith(
      ["volumes"],
      "deletes a volume once, twice, and one that never was",
      async (bench) => {
        const { cloud } = bench;
        const volume = await bench.volume();
        await Promise.all([cloud.deleteVolume(volume.id), cloud.deleteVolume(volume.id)]);
        await cloud.deleteVolume(volume.id);
        await cloud.deleteVolume(nowhere);
        assert.equal(await bench.volumeNow(volume), undefined);
      },
    ),

    clauseWith(
      ["volumes"],
      "attaches and detaches while the instance runs, in any process",
      async (bench) => {
        const { cloud } = bench;
        const volume = await bench.volume();
        const { id } = await bench.running();
        const other = await bench.open();
        await Promise.all([cloud.attachVolume(volume.id, id), other.attachVolume(volume.id, id)]);
        await cloud.attachVolume(volume.id, id);
        const attached = { ...volume, attachedTo: id };
        assert.deepEqual(await bench.volumeNow(volume, other), attached);
        assert.deepEqual(await bench.volumeNow(volume, await bench.open()), attached);
        await other.detachVolume(volume.id, id);
        await cloud.detachVolume(volume.id, id);
        assert.deepEqual(await bench.volumeNow(volume), volume);
        assert.equal((await cloud.describe(id))?.state, "running");
      },
    ),

    clauseWith(["volumes"], "lets one instance at a time have a volume", async (bench) => {
      const { cloud } = bench;
      const volume = await bench.volume();
      const other = await bench.open();
      const instances = await Promise.all([bench.running(), bench.running()]);
      const [first, second] = instances.map(({ id }) => id) as [string, string]; // as launched
      const outcomes = await Promise.allSettled([
        cloud.attachVolume(volume.id, first),
        other.attachVolume(volume.id, second),
      ]);
      const refused = outcomes.filter((outcome) => outcome.status === "rejected");
      assert.deepEqual(
        refused.map(({ reason }) => cloudErrorCode(reason)),
        ["CLOUD_INVALID_REQUEST"],
      );
      const [winner, loser] =
        outcomes[0].status === "fulfilled" ? [first, second] : [second, first];
      assert.equal((await bench.volumeNow(volume))?.attachedTo, winner);
      await cloud.detachVolume(volume.id, loser);
      await bench.refuses("CLOUD_INVALID_REQUEST", cloud.attachVolume(volume.id, loser));
      await bench.refuses("CLOUD_INVALID_REQUEST", cloud.deleteVolume(volume.id));
      assert.equal((await bench.volumeNow(volume))?.attachedTo, winner);
      await cloud.detachVolume(volume.id, winner);
      await other.attachVolume(volume.id, loser);
      assert.equal((await bench.volumeNow(volume))?.attachedTo, loser);
    }),

    clauseWith(["volumes"], "knows what cannot be attached", async (bench) => {
      const { cloud } = bench;
      const volume = await bench.volume();
      const instance = await bench.running();
      await bench.refuses("CLOUD_NOT_FOUND", cloud.attachVolume("vol-none", instance.id));
      await bench.refuses("CLOUD_NOT_FOUND", cloud.attachVolume(volume.id, nowhere));
      await bench.end(instance);
      await bench.refuses("CLOUD_NOT_FOUND", cloud.attachVolume(volume.id, instance.id));
      await cloud.detachVolume(volume.id, instance.id);
      await cloud.detachVolume("vol-none", instance.id);
      assert.deepEqual(await bench.volumeNow(volume), volume);
    }),

    clauseWith(["volumes"], "takes volumes from an instance that is ended", async (bench) => {
      const { cloud } = bench;
      const volume = await bench.volume();
      const instance = await bench.running();
      await cloud.attachVolume(volume.id, instance.id);
      await bench.end(instance);
      assert.deepEqual(await bench.volumeNow(volume), volume);
      const next = await bench.running();
      await cloud.attachVolume(volume.id, next.id);
      assert.equal((await bench.volumeNow(volume))?.attachedTo, next.id);
    }),

    clauseWith(["volumes", "faults"], "takes volumes from an instance that dies", async (bench) => {
      const { cloud } = bench;
      const volume = await bench.volume();
      const { id } = await bench.running();
      await cloud.attachVolume(volume.id, id);
      await bench.faults.kill(id);
      await cloud.waitForTerminated(id);
      assert.deepEqual(await bench.volumeNow(volume), volume);
      await cloud.attachVolume(volume.id, (await bench.running()).id);
    }),

    clauseWith(["volumes", "faults"], "goes on where an answer was lost", async (bench) => {
      const { cloud, faults } = bench;
      const lost = { code: "CLOUD_UNAVAILABLE", moment: "after" } as const;
      const asked = bench.volumeRequest();
      await faults.fail({ operation: "createVolume", ...lost });
      await bench.refuses("CLOUD_UNAVAILABLE", cloud.createVolume(asked));
      const volume = bench.keep(await cloud.createVolume(asked));
      assert.equal(
        (await cloud.listVolumes()).filter(({ token }) => token === asked.token).length,
        1,
      );
      const { id } = await bench.running();
      await faults.fail({ operation: "attachVolume", ...lost });
      await bench.refuses("CLOUD_UNAVAILABLE", cloud.attachVolume(volume.id, id));
      await cloud.attachVolume(volume.id, id);
      await faults.fail({ operation: "detachVolume", ...lost });
      await bench.refuses("CLOUD_UNAVAILABLE", cloud.detachVolume(volume.id, id));
      await cloud.detachVolume(volume.id, id);
      await faults.fail({ operation: "deleteVolume", ...lost });
      await bench.refuses("CLOUD_UNAVAILABLE", cloud.deleteVolume(volume.id));
      await cloud.deleteVolume(volume.id);
      assert.equal(await bench.volumeNow(volume), undefined);
    }),

    clauseWith(
      ["volumes", "guest"],
      "shows a guest the disk by its serial, and another what is on it",
      async (bench) => {
        const { cloud } = bench;
        const image = await cloud.resolveImage(bench.guest.imageSpec);
        const volume = await bench.volume();
        const [first, second] = await Promise.all([
          bench.running({ image, name: "first" }),
          bench.running({ image, name: "second" }),
        ]);
        const diskOf = async (instance: typeof first) => {
          await cloud.attachVolume(volume.id, instance.id);
          const isThere = ({ serial, content }: { serial: string; content: string }): boolean =>
            serial === volume.serial && content !== "";
          const view = await bench.seen(instance, ({ disks }) => disks.some(isThere));
          return view.disks.find(isThere) ?? assert.fail();
        };
        const { sizeBytes, serial } = volume;
        assert.deepEqual(await diskOf(first), { serial, sizeBytes, content: "first" });
        await cloud.detachVolume(volume.id, first.id);
        await bench.seen(first, ({ disks }) => !disks.some((disk) => disk.serial === serial));
        assert.deepEqual(await diskOf(second), { serial, sizeBytes, content: "first" });
      },
    ),
  ],
};
