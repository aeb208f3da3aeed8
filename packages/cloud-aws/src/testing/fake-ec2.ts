import type * as sdk from "@aws-sdk/client-ec2";
import type { Clock } from "@kip/base";
import type { LaunchRequest } from "@kip/cloud";
import { AwsCloud } from "../aws-cloud.ts";
import type { Ec2, Ec2Action, Ec2CallOptions, Ec2Calls } from "../ec2/ec2-calls.ts";
import { cloudErrorOf } from "../errors/cloud-error-of.ts";
import type { CellSubnet } from "../network/place.ts";
import { assemble, type AwsCloudOptions } from "../open-aws-cloud.ts";
import { ownTags } from "../tags.ts";

/** EC2's responses to the actions of a test. Each function gets the call's input. */
export type Answers = { readonly [A in Ec2Action]?: (input: Ec2Calls[A][0]) => unknown };

/** Every launch calls these first. */
const always: Answers = {
  DescribeImages: () => ({ Images: [{ ImageId: "ami-1", RootDeviceName: "/dev/xvda" }] }),
  DescribeVpcs: () => ({ Vpcs: [] }),
  DescribeSecurityGroups: () => ({ SecurityGroups: [{ GroupId: "sg-1" }] }),
};

/** A clock that a test advances. */
export interface MovableClock extends Clock {
  advance(ms: number): Promise<void>;
}

/** An EC2 with the test's responses. */
export class FakeEc2 implements Ec2 {
  readonly actions: Ec2Action[] = [];
  readonly #answers: Answers;

  constructor(answers: Answers) {
    this.#answers = { ...always, ...answers };
  }

  async call<A extends Ec2Action>(
    action: A,
    input: Ec2Calls[A][0],
    { purpose, place, signal }: Ec2CallOptions,
  ): Promise<Ec2Calls[A][1]> {
    signal?.throwIfAborted();
    this.actions.push(action);
    try {
      return (await this.#answers[action]?.(input)) as Ec2Calls[A][1]; // as the test says
    } catch (cause) {
      throw cloudErrorOf(cause, { purpose, action, place });
    }
  }

  [Symbol.dispose](): void {}
}

/** A private subnet with free addresses. */
export function testSubnet(subnetId: string, changes: Partial<CellSubnet> = {}): CellSubnet {
  return {
    subnetId,
    zone: "us-east-1a",
    isPublic: false,
    hasIpv6: false,
    freeAddresses: 100,
    ...changes,
  };
}

/** A driver of the owner "me" on an EC2 with these responses. */
export function fakeCloud(
  clock: MovableClock,
  answers: Answers,
  options: Partial<AwsCloudOptions> & { readonly subnets?: readonly CellSubnet[] } = {},
) {
  const ec2 = new FakeEc2(answers);
  const subnets = options.subnets ?? [testSubnet("subnet-1")];
  const place = { vpcId: "vpc-1", subnets };
  const times = {
    pollMs: 2000,
    endsMs: 15_000,
    batchMs: 20,
    consistencyMs: 60_000,
    hostAgeMs: 120_000,
  };
  const parts = assemble(
    { owner: "me", clock, times, ...options },
    { ec2, region: "us-east-1", place, offers: [] },
  );
  const cloud = new AwsCloud(parts);
  /** The outcome of a call that may take minutes of the test's clock. */
  const outcome = async <T>(call: Promise<T>): Promise<PromiseSettledResult<T>> => {
    const settled = Promise.allSettled([call]);
    const progress = { isSettled: false };
    void settled.then(() => (progress.isSettled = true));
    for (let s = 0; s < 300 && !progress.isSettled; s++) await clock.advance(1000);
    return (await settled)[0];
  };
  return { cloud, actions: ec2.actions, outcome };
}

/** An instance of the owner "me" in EC2's response. An ended one has no interface. */
export function describedInstance(
  id: string,
  state: string,
  {
    clientToken = "",
    reason = "",
    routes = "",
    routedInterface = "",
    ipv6,
  }: {
    readonly clientToken?: string;
    readonly reason?: string;
    readonly routes?: string;
    readonly routedInterface?: string;
    /** Its IPv6 addresses, if the launch has asked for some. */
    readonly ipv6?: readonly string[];
  } = {},
): sdk.Instance {
  return {
    InstanceId: id,
    State: { Name: state as sdk.InstanceStateName },
    ClientToken: clientToken,
    InstanceType: "t3.small",
    SubnetId: "subnet-1",
    Tags: [
      { Key: ownTags.token, Value: "uid-1" },
      { Key: ownTags.owner, Value: "me" },
      { Key: ownTags.cell, Value: "cell-1" },
      ...(routes === "" ? [] : [{ Key: ownTags.routes, Value: routes }]),
      ...(ipv6 ? [{ Key: ownTags.ipv6Count, Value: "2" }] : []),
      ...(routedInterface === "" ? [] : [{ Key: ownTags.routedInterface, Value: routedInterface }]),
    ],
    NetworkInterfaces: state === "terminated" ? [] : [interfaceOf(id, ipv6)],
    ...(reason !== "" && { StateReason: { Code: reason, Message: reason } }),
  };
}

/** An instance's interface in EC2's response. */
function interfaceOf(id: string, ipv6: readonly string[] = []): sdk.InstanceNetworkInterface {
  return {
    NetworkInterfaceId: `eni-${id}`,
    Attachment: { DeviceIndex: 0 },
    PrivateIpAddresses: [
      { Primary: true, PrivateIpAddress: "10.0.0.1" },
      { Primary: false, PrivateIpAddress: "10.0.0.2" },
    ],
    Ipv6Addresses: ipv6.map((Ipv6Address) => ({ Ipv6Address })),
  };
}

/** A response with these instances. */
export function reservations(...Instances: readonly sdk.Instance[]) {
  return { Reservations: [{ Instances }] };
}

/** The SDK's error for this EC2 code. */
export function awsError(name: string, message: string = name): Error {
  return Object.assign(new Error(message), { name, $metadata: { httpStatusCode: 400 } });
}

/** A launch for the Cell "cell-1", whose UID is "uid-1". */
export const launchRequest: LaunchRequest = {
  token: "uid-1",
  name: "cell-1",
  instanceType: "t3.small",
  launchType: "on-demand",
  image: "ami-1",
  rootDiskBytes: 2 ** 30,
  userData: new Uint8Array(),
  privateIpOnly: true,
  tags: {},
};
