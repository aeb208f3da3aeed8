import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readEcrHost } from "./ecr-host.ts";

const account = "123456789012";

describe("readEcrHost()", () => {
  it("reads the forms of all partitions", () => {
    const plain = { isFips: false, isDualStack: false };
    for (const [host, region, partition, more] of [
      ["dkr.ecr.us-east-1.amazonaws.com", "us-east-1", "aws", plain],
      ["dkr.ecr.ap-southeast-6.amazonaws.com", "ap-southeast-6", "aws", plain],
      ["dkr.ecr-fips.us-west-2.amazonaws.com", "us-west-2", "aws", { ...plain, isFips: true }],
      ["dkr-ecr.eu-west-1.on.aws", "eu-west-1", "aws", { ...plain, isDualStack: true }],
      ["dkr-ecr-fips.us-east-2.on.aws", "us-east-2", "aws", { isFips: true, isDualStack: true }],
      ["dkr.ecr.us-gov-west-1.amazonaws.com", "us-gov-west-1", "aws-us-gov", plain],
      [
        "dkr.ecr-fips.us-gov-east-1.amazonaws.com",
        "us-gov-east-1",
        "aws-us-gov",
        { ...plain, isFips: true },
      ],
      ["dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1", "aws-cn", plain],
      [
        "dkr-ecr.cn-northwest-1.on.amazonwebservices.com.cn",
        "cn-northwest-1",
        "aws-cn",
        { ...plain, isDualStack: true },
      ],
      ["dkr.ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1", "aws-eusc", plain],
      ["dkr.ecr.us-isob-east-1.sc2s.sgov.gov", "us-isob-east-1", "aws-iso-b", plain],
    ] as const)
      assert.deepEqual(
        readEcrHost(`${account}.${host}`),
        { account, region, partition, ...more },
        host,
      );
  });

  it("takes no other registry for one of ECR", () => {
    for (const host of [
      "docker.io",
      "public.ecr.aws",
      "dkr.ecr.us-east-1.amazonaws.com",
      `1.dkr.ecr.us-east-1.amazonaws.com`,
      `${account}.dkr.ecr.us-east-1.amazonaws.com.evil.test`,
      `${account}.dkr.ecr.us-east-1.amazonaws.com:443`,
      `${account}.dkr.ecr.evil.test/us-east-1.amazonaws.com`,
      `${account}.dkr.ecr.us-east-1.amazonaws.com.cn`,
      `${account}.dkr.ecr.cn-north-1.amazonaws.com`,
      `${account}.dkr-ecr.us-east-1.amazonaws.com`,
      `${account}.dkr.ecr.us-east-1.on.aws`,
      `x.${account}.dkr.ecr.us-east-1.amazonaws.com`,
      `${account}.dkr.ecr.us-east-1.constructor`,
    ])
      assert.equal(readEcrHost(host), undefined, host);
  });
});
