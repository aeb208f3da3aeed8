import { createHash } from "node:crypto";
import type { AllocateHostsCommandInput } from "@aws-sdk/client-ec2";
import { ownTags } from "../tags.ts";

/** What a launch needs of a host. */
export interface HostPlace {
  readonly instanceType: string;
  readonly zone: string;
  /** Of the launch: its repetitions have the same one. */
  readonly token: string;
  /** For people. @default the owner */
  readonly nametag?: string | undefined;
}

/**
 * What AllocateHosts is asked for. The client token is made of all that is asked for and of the launch's token, so EC2 allocates one
 * host for it, whatever fails or repeats.
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
    // EC2 would give a host that it replaces a successor without instances, which looks like one that is not needed.
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
