import { createHash } from "node:crypto";
import type { AllocateHostsCommandInput } from "@aws-sdk/client-ec2";
import { ownTags } from "../tags.ts";

/** What a launch needs from a host. */
export interface HostPlace {
  readonly instanceType: string;
  readonly zone: string;
  /** Token of the launch. Retries of the launch have the same one. */
  readonly token: string;
  /** Name for people. @default the owner */
  readonly nametag?: string | undefined;
}

/**
 * The request of AllocateHosts. The client token is derived from the whole request and the launch's token, so EC2 allocates one
 * host for the launch, also if calls fail or are repeated.
 *
 * @param generation how many hosts of this launch can no longer be used
 */
export function allocateRequest(
  owner: string,
  { instanceType, zone, token, nametag = owner }: HostPlace,
  generation: number,
): AllocateHostsCommandInput {
  const request: AllocateHostsCommandInput = {
    AvailabilityZone: zone,
    InstanceType: instanceType,
    Quantity: 1,
    AutoPlacement: "off",
    // EC2 would replace a host by a new one without instances. That would look like a host that is not needed.
    HostMaintenance: "off",
    TagSpecifications: [
      {
        ResourceType: "dedicated-host",
        Tags: [
          { Key: ownTags.name, Value: `Kip Host ${nametag}`.slice(0, 255) },
          { Key: ownTags.owner, Value: owner },
          { Key: ownTags.nametag, Value: nametag },
        ],
      },
    ],
  };
  const text = JSON.stringify([request, token, generation]);
  return { ...request, ClientToken: createHash("sha256").update(text).digest("hex") };
}
