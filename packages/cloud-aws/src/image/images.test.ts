import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DescribeImagesCommandInput } from "@aws-sdk/client-ec2";
import { CloudError } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { FakeEc2 } from "../testing/fake-ec2.ts";
import { Images } from "./images.ts";

const image = (ImageId: string, Architecture: string, CreationDate: string) => ({
  ImageId,
  Architecture,
  CreationDate,
  State: "available",
});

/** An account with these images, and the number of calls to it. */
function account(...all: readonly object[]) {
  let calls = 0;
  const call = async () => {
    calls++;
    return await Promise.resolve({ Images: all });
  };
  const ec2 = { call } as unknown as Ec2; // the methods that are called
  return { images: new Images(ec2, new ManualClock()), calls: () => calls };
}

describe("Images.resolve()", () => {
  it("takes the newest image for the processor, amd64 unless another is asked for", async () => {
    const { images, calls } = account(
      image("ami-old", "x86_64", "2026-01-01"),
      image("ami-new", "x86_64", "2026-02-01"),
      image("ami-arm", "arm64", "2026-03-01"),
    );
    assert.equal(await images.resolve({}), "ami-new");
    assert.equal(await images.resolve({}, "arm64"), "ami-arm");
    assert.equal(await images.resolve({}, "amd64"), "ami-new");
    assert.equal(calls(), 2, "one look for each processor");
    assert.equal(await images.resolve({ imageIDs: "ami-new,ami-arm" }, "arm64"), "ami-arm");
  });

  it("finds an image on a later page, and asks for no size of pages with IDs", async () => {
    const asked: DescribeImagesCommandInput[] = [];
    const ec2 = new FakeEc2({
      DescribeImages: (input: DescribeImagesCommandInput) => {
        asked.push(input);
        if (input.NextToken === undefined) return { NextToken: "2" };
        return { Images: [image("ami-1", "x86_64", "2026-01-01")] };
      },
    });
    const images = new Images(ec2, new ManualClock());
    assert.equal(await images.resolve({}), "ami-1");
    assert.equal(await images.resolve({ imageIDs: "ami-1" }), "ami-1");
    assert.deepEqual(
      asked.map(({ MaxResults, NextToken }) => [MaxResults, NextToken]),
      [
        [1000, undefined],
        [1000, "2"],
        [undefined, undefined],
        [undefined, "2"],
      ],
    );
  });

  it("says that no image is for the processor", async () => {
    const { images } = account(image("ami-1", "x86_64", "2026-01-01"));
    await assert.rejects(images.resolve({ imageIDs: "ami-1" }, "arm64"), (error: unknown) => {
      return CloudError.is(error, "CLOUD_NOT_FOUND") && /for arm64.*ami-1/.test(error.message);
    });
  });

  it("says which images it looks for without a key, and how to make one", async () => {
    const { images } = account(image("ami-1", "x86_64", "2026-01-01"));
    await assert.rejects(images.resolve({}, "arm64"), (error: unknown) => {
      assert.ok(CloudError.is(error, "CLOUD_NOT_FOUND"));
      assert.match(error.message, /^Cannot find an image for arm64: .* "kip-cell-\*"$/);
      assert.match(error.remedy ?? "", /kip image build --cloud=aws --architecture=arm64/);
      return true;
    });
  });

  it("takes no image for a Mac: EC2 starts it on its Macs alone", async () => {
    const { images } = account(
      image("ami-mac", "arm64_mac", "2026-03-01"),
      image("ami-intel-mac", "x86_64_mac", "2026-03-01"),
      image("ami-32-bit", "i386", "2026-01-01"),
    );
    assert.equal(await images.resolve({ owners: "amazon" }), "ami-32-bit");
    await assert.rejects(images.resolve({ owners: "amazon" }, "arm64"), {
      code: "CLOUD_NOT_FOUND",
    });
  });
});
