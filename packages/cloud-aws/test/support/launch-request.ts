import type { LaunchRequest } from "@kip/cloud";
import type { TestEc2 } from "./test-ec2.ts";

/** A request for an m5.large on demand, named as its token, but for what is changed. */
export function launchRequest(
  { image }: Pick<TestEc2, "image">,
  token: string,
  changes: Partial<LaunchRequest> = {},
): LaunchRequest {
  return {
    token,
    name: token,
    instanceType: "m5.large",
    launchType: "on-demand",
    image,
    rootDiskBytes: 2 ** 30,
    userData: Buffer.alloc(0),
    privateIpOnly: true,
    tags: {},
    ...changes,
  };
}
