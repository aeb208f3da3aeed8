import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cloudErrorCodes, type CloudErrorCode } from "@kip/cloud";
import { cloudErrorOf, stateReasonError } from "./cloud-error-of.ts";

const place = { instanceType: "m5.large", zone: "us-east-1a", launchType: "on-demand" };

function translated(name: string, status = 400, launchType = place.launchType) {
  const error = Object.assign(new Error(`${name} happened`), {
    name,
    $metadata: { httpStatusCode: status },
  });
  return cloudErrorOf(error, {
    purpose: "start an instance",
    action: "RunInstances",
    place: { ...place, launchType },
  });
}

describe("cloudErrorOf()", () => {
  const samples: readonly (readonly [string, CloudErrorCode, object?])[] = [
    ["InsufficientInstanceCapacity", "CLOUD_NO_CAPACITY", place],
    ["SpotMaxPriceTooLow", "CLOUD_NO_CAPACITY", place],
    ["Unsupported", "CLOUD_NO_CAPACITY", { instanceType: "m5.large", zone: "us-east-1a" }],
    ["InsufficientFreeAddressesInSubnet", "CLOUD_NO_CAPACITY", { zone: "us-east-1a" }],
    ["InsufficientHostCapacity", "CLOUD_NO_CAPACITY", { ...place, launchType: "dedicated" }],
    ["UnsupportedHostConfiguration", "CLOUD_NO_CAPACITY", { ...place, launchType: "dedicated" }],
    [
      "InvalidHostConfiguration",
      "CLOUD_NO_CAPACITY",
      { instanceType: "m5.large", launchType: "dedicated" },
    ],
    ["VcpuLimitExceeded", "CLOUD_QUOTA"],
    ["MaxSpotInstanceCountExceeded", "CLOUD_QUOTA"],
    ["AnotherLimitExceeded", "CLOUD_QUOTA"],
    ["RequestLimitExceeded", "CLOUD_THROTTLED"],
    ["VolumeModificationRateExceeded", "CLOUD_THROTTLED"],
    ["UnauthorizedOperation", "CLOUD_AUTH"],
    ["AuthFailure.ServiceLinkedRoleCreationNotPermitted", "CLOUD_AUTH"],
    ["CredentialsProviderError", "CLOUD_AUTH"],
    ["InvalidIdentityTokenException", "CLOUD_AUTH"],
    ["IDPCommunicationErrorException", "CLOUD_UNAVAILABLE"],
    ["InvalidInstanceID.NotFound", "CLOUD_NOT_FOUND"],
    ["InvalidAMIID.Malformed", "CLOUD_NOT_FOUND"],
    ["InvalidParameterValue", "CLOUD_INVALID_REQUEST"],
    ["MissingParameter", "CLOUD_INVALID_REQUEST"],
    ["InternalError", "CLOUD_UNAVAILABLE"],
    ["constructor", "CLOUD_UNKNOWN"],
    ["SomethingNew", "CLOUD_UNKNOWN"],
  ];
  for (const [name, code, scope = {}] of samples)
    it(`makes ${code} of ${name}`, () => {
      const error = translated(name);
      assert.equal(error.code, code);
      assert.deepEqual(error.scope, scope);
      assert.match(error.message, /^Cannot start an instance: /);
    });

  it("takes a type that is not sold as dedicated instances from those alone", () => {
    assert.deepEqual(translated("Unsupported", 400, "dedicated").scope, {
      ...place,
      launchType: "dedicated",
    });
  });

  it("has an answer for each code of the closed set", () => {
    const codes = new Set(samples.map(([, code]) => code));
    assert.deepEqual([...codes].sort(), [...cloudErrorCodes].sort());
  });

  it("takes failures of the server and of the network for such", () => {
    assert.equal(translated("SomethingNew", 503).code, "CLOUD_UNAVAILABLE");
    const refused = Object.assign(new Error("connect"), { code: "ECONNREFUSED" });
    const call = { purpose: "list instances", action: "DescribeInstances" };
    assert.equal(cloudErrorOf(refused, call).code, "CLOUD_UNAVAILABLE");
    assert.equal(cloudErrorOf(new TypeError("bug"), call).code, "CLOUD_UNKNOWN");
    const noToken = Object.assign(new Error("no such file"), { code: "ENOENT" });
    assert.equal(cloudErrorOf(noToken, call).code, "CLOUD_AUTH");
  });

  it("says how to make the role that the first spot instance of an account needs", () => {
    const error = translated("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 403);
    assert.match(error.remedy ?? "", /create-service-linked-role .* spot\.amazonaws\.com/);
  });

  it("names the permission that is missing", () => {
    assert.match(translated("UnauthorizedOperation").remedy ?? "", /ec2:RunInstances/);
    const error = Object.assign(
      new Error("not authorized to perform: iam:PassRole on resource x"),
      {
        name: "UnauthorizedOperation",
      },
    );
    const call = { purpose: "start an instance", action: "RunInstances" };
    assert.match(cloudErrorOf(error, call).remedy ?? "", /--pass-role/);
  });
});

describe("stateReasonError()", () => {
  it("finds a shortage and a quota in the reason of an end", () => {
    const of = (code: string) => stateReasonError("wait", { code, message: "why" }, place);
    assert.equal(of("Server.InsufficientInstanceCapacity").code, "CLOUD_NO_CAPACITY");
    assert.deepEqual(of("Server.InsufficientInstanceCapacity").scope, place);
    assert.equal(of("Client.VolumeLimitExceeded").code, "CLOUD_QUOTA");
    assert.equal(of("Server.InternalError").code, "CLOUD_UNAVAILABLE");
  });

  it("names the rights to the key of disks where EC2 blames the client", () => {
    const of = (code: string) => stateReasonError("wait", { code, message: "why" }, place);
    assert.match(of("Client.InternalError").remedy ?? "", /kms:CreateGrant/);
    assert.match(of("Client.InvalidKMSKey.InvalidState").remedy ?? "", /kms:CreateGrant/);
    assert.equal(of("Server.InternalError").remedy, undefined);
    assert.equal(of("Client.InstanceInitiatedShutdown").remedy, undefined);
  });
});
