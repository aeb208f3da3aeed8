import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type * as sdk from "@aws-sdk/client-ec2";
import { ManualClock } from "@kip/testing";
import { awsError, fakeCloud } from "../testing/fake-ec2.ts";

const request = { token: "uid-1", name: "data", sizeBytes: 2 ** 30, tags: {} };

describe("Volumes", () => {
  it("makes one volume of a token although an answer was lost and later ones lag", async () => {
    const made = new Map<string, sdk.Volume>();
    let isShown = false;
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeVolumes: () => ({ Volumes: isShown ? [...made.values()] : [] }),
      CreateVolume: ({ ClientToken = "", TagSpecifications }) => {
        if (made.has(ClientToken)) throw awsError("IdempotentParameterMismatch");
        const Tags = TagSpecifications?.[0]?.Tags ?? [];
        const volume = { VolumeId: `vol-${made.size}`, State: "available", Size: 1, Tags } as const;
        made.set(ClientToken, volume);
        throw awsError("TimeoutError");
      },
    });
    assert.equal((await outcome(cloud.createVolume(request))).status, "rejected");
    void clock.sleep(20_000).then(() => (isShown = true));
    const second = await outcome(cloud.createVolume(request));
    assert.equal(second.status === "fulfilled" && second.value.id, "vol-0");
    assert.equal(made.size, 1);
  });

  it("makes another one of a token whose volume has been deleted", async () => {
    const tokens: string[] = [];
    const clock = new ManualClock();
    const { cloud, outcome } = fakeCloud(clock, {
      DescribeVolumes: () => ({ Volumes: [] }),
      CreateVolume: ({ ClientToken = "", TagSpecifications }) => {
        tokens.push(ClientToken);
        if (tokens.length === 1) throw awsError("IdempotentParameterMismatch");
        return {
          VolumeId: "vol-1",
          State: "creating",
          Size: 1,
          Tags: TagSpecifications?.[0]?.Tags,
        };
      },
    });
    assert.equal((await outcome(cloud.createVolume(request))).status, "fulfilled");
    assert.equal(new Set(tokens).size, 2);
  });
});
