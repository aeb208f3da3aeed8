import type { LaunchRequest } from "@kip/cloud";
import type { TestEc2 } from "./test-ec2.ts";

/** A request for an on-demand m5.large, with its token as its name, except for the changes. */
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
