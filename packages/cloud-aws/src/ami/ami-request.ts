import type { RegisterImageCommandInput, Tag } from "@aws-sdk/client-ec2";

/** Processors that an image is for, as EC2 names them. */
export type AmiArchitecture = "x86_64" | "arm64";

/** Where cells of AWS have their root disk. */
const rootDevice = "/dev/xvda";

/**
 * What an image of a snapshot is registered as: a gp3 root disk that goes with its instance, enhanced networking, and a metadata service that
 * answers only with session tokens. No TPM: cells keep no keys in one.
 *
 * @see https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RegisterImage.html
 */
export function amiRequest(options: {
  readonly name: string;
  readonly architecture: AmiArchitecture;
  readonly snapshotId: string;
  readonly sizeGiB: number;
  readonly tags: Tag[];
}): RegisterImageCommandInput {
  const { name, architecture, snapshotId, sizeGiB, tags } = options;
  return {
    Name: name,
    Description: "Machines of Kip's pods",
    Architecture: architecture,
    // The disk has loaders for both where both exist: older types of x86_64 have no UEFI.
    BootMode: architecture === "arm64" ? "uefi" : "uefi-preferred",
    VirtualizationType: "hvm",
    EnaSupport: true,
    SriovNetSupport: "simple",
    ImdsSupport: "v2.0",
    RootDeviceName: rootDevice,
    BlockDeviceMappings: [
      {
        DeviceName: rootDevice,
        Ebs: {
          SnapshotId: snapshotId,
          VolumeSize: sizeGiB,
          VolumeType: "gp3",
          DeleteOnTermination: true,
        },
      },
    ],
    TagSpecifications: [{ ResourceType: "image", Tags: tags }],
  };
}
