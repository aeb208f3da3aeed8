import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LaunchRequest } from "@kip/cloud";
import { clientTokenOf, generationOf, runRequest, type RunPlace } from "./run-request.ts";

const GiB = 2 ** 30;
const uid = "0f6b2f1e-7f0e-4c37-9f5b-1f8a3c2d4e5f";
const request: LaunchRequest = {
  token: uid,
  name: "cell-1",
  instanceType: "t3.medium",
  launchType: "on-demand",
  image: "ami-1",
  rootDiskBytes: 5 * GiB + 1,
  userData: Buffer.from("#cloud-config\n{}"),
  privateIpOnly: false,
  tags: { "kip-nametag": "blue" },
};
const place: RunPlace = {
  owner: "me",
  subnetId: "subnet-1",
  securityGroups: ["sg-1"],
  isPublic: true,
};
const image = { rootDevice: "/dev/xvda", rootGiB: 2 };

function asked(changes: Partial<LaunchRequest> = {}, places: Partial<RunPlace> = {}) {
  const at = new Date("2026-01-02T03:04:05.678Z");
  const clientToken = clientTokenOf("me", uid, 0);
  return runRequest(
    { ...request, ...changes },
    { ...place, ...places },
    { image, clientToken, at },
  );
}

describe("runRequest()", () => {
  it("asks for session tokens at the metadata service, which one hop alone reaches", () => {
    assert.deepEqual(asked().MetadataOptions, {
      HttpEndpoint: "enabled",
      HttpProtocolIpv6: "disabled",
      HttpTokens: "required",
      HttpPutResponseHopLimit: 1,
    });
    // A profile's credentials are for the pod, which is one hop further away.
    const { MetadataOptions, IamInstanceProfile } = asked({ instanceProfile: "web" });
    assert.equal(MetadataOptions?.HttpPutResponseHopLimit, 2);
    assert.deepEqual(IamInstanceProfile, { Name: "web" });
    const Arn = "arn:aws:iam::123456789012:instance-profile/web";
    assert.deepEqual(asked({ instanceProfile: Arn }).IamInstanceProfile, { Arn });
  });

  it("asks for two addresses of IPv6 where the subnet and the type have them, and notes that", () => {
    const countOf = (instanceType: string, hasIpv6: boolean) => {
      const { NetworkInterfaces, TagSpecifications } = asked({ instanceType }, { hasIpv6 });
      const tags = (TagSpecifications ?? []).flatMap(({ Tags = [] }) => Tags);
      const notes = tags.flatMap(({ Key, Value }) => (Key === "KipIPv6Count" ? [Value] : []));
      return [NetworkInterfaces?.[0]?.Ipv6AddressCount, ...notes];
    };
    assert.deepEqual(countOf("t3.nano", true), [2, "2"]);
    assert.deepEqual(countOf("c3.large", true), [2, "2"]);
    assert.deepEqual(countOf("t3.nano", false), [undefined]);
    for (const type of ["c1.medium", "m1.small", "m2.xlarge", "m3.medium", "t1.micro"])
      assert.deepEqual(countOf(type, true), [undefined], type);
  });

  it("adds the groups of the request to those of all cells", () => {
    const [nic] = asked({ securityGroups: ["sg-2", "sg-1"] }).NetworkInterfaces ?? [];
    assert.deepEqual(nic?.Groups, ["sg-1", "sg-2"]);
  });

  it("gives an encrypted gp3 root disk of whole GiB, never smaller than the image's", () => {
    const root = asked().BlockDeviceMappings?.[0];
    const { VolumeSize, ...ebs } = root?.Ebs ?? {};
    assert.equal(root?.DeviceName, "/dev/xvda");
    assert.deepEqual(ebs, { VolumeType: "gp3", Encrypted: true, DeleteOnTermination: true });
    assert.equal(VolumeSize, 6);
    assert.equal(asked({ rootDiskBytes: 0 }).BlockDeviceMappings?.[0]?.Ebs?.VolumeSize, 2);
  });

  it("tags instance, disk and interface alike, and a spot request too", () => {
    const kinds = ["instance", "volume", "network-interface"];
    const specifications = asked().TagSpecifications ?? [];
    assert.deepEqual(
      specifications.map(({ ResourceType }) => ResourceType),
      kinds,
    );
    for (const { Tags } of specifications) {
      assert.deepEqual(Tags, specifications[0]?.Tags);
      assert.deepEqual(Tags?.[0], { Key: "Name", Value: "Kip Node blue 2026-01-02T03:04:05.678Z" });
    }
    assert.equal(asked({ launchType: "spot" }).TagSpecifications?.length, 4);
  });

  it("gives two addresses, and a public one in a public subnet alone", () => {
    const [nic] = asked().NetworkInterfaces ?? [];
    assert.equal(nic?.SecondaryPrivateIpAddressCount, 1);
    assert.equal(nic?.AssociatePublicIpAddress, true);
    for (const other of [asked({ privateIpOnly: true }), asked({}, { isPublic: false })])
      assert.equal(other.NetworkInterfaces?.[0]?.AssociatePublicIpAddress, false);
  });

  it("gives two addresses of IPv6 besides if it may", () => {
    const [nic] = asked({}, { hasIpv6: true }).NetworkInterfaces ?? [];
    assert.deepEqual([nic?.Ipv6AddressCount, nic?.SecondaryPrivateIpAddressCount], [2, 1]);
    assert.equal(asked().NetworkInterfaces?.[0]?.Ipv6AddressCount, undefined);
  });

  it("asks for one-time spot instances that end when they are taken", () => {
    assert.deepEqual(asked({ launchType: "spot" }).InstanceMarketOptions, {
      MarketType: "spot",
      SpotOptions: { SpotInstanceType: "one-time", InstanceInterruptionBehavior: "terminate" },
    });
    assert.equal(asked().InstanceMarketOptions, undefined);
  });

  it("asks for dedicated tenancy, or for a host if it is given one", () => {
    assert.deepEqual(asked({ launchType: "dedicated" }).Placement, { Tenancy: "dedicated" });
    assert.deepEqual(asked({ launchType: "dedicated" }, { hostId: "h-1" }).Placement, {
      Tenancy: "host",
      HostId: "h-1",
    });
    assert.equal(asked().Placement, undefined);
  });

  it("buys the full processor of burstable types", () => {
    assert.deepEqual(asked().CreditSpecification, { CpuCredits: "unlimited" });
    assert.equal(asked({ instanceType: "m5.large" }).CreditSpecification, undefined);
    // EC2 refuses unlimited mode for dedicated T3 instances, with a host or without.
    for (const hostId of [undefined, "h-1"]) {
      const { CreditSpecification } = asked({ launchType: "dedicated" }, { hostId });
      assert.deepEqual(CreditSpecification, { CpuCredits: "standard" });
    }
  });

  it("leaves no instance that powers itself off", () => {
    assert.equal(asked().InstanceInitiatedShutdownBehavior, "terminate");
  });
});

describe("clientTokenOf()", () => {
  it("differs by Cell, owner and generation, and has at most 64 characters", () => {
    const tokens = ["me", "you"].flatMap((owner) =>
      [uid, `${uid}x`, "x".repeat(300)].flatMap((token) =>
        [0, 1, 49].map((generation) => clientTokenOf(owner, token, generation)),
      ),
    );
    assert.equal(new Set(tokens).size, tokens.length);
    assert.ok(tokens.every((token) => /^[\x21-\x7e]{1,64}$/.test(token)));
    assert.ok(tokens[0]?.startsWith(uid));
    assert.deepEqual(tokens.slice(0, 3).map(generationOf), [0, 1, 49]);
  });
});
