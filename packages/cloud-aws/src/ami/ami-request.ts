import type { RegisterImageCommandInput, Tag } from "@aws-sdk/client-ec2";

/** Processor architectures of an image, by EC2's names. */
export type AmiArchitecture = "x86_64" | "arm64";

/** Device name of the root disk of AWS cells. */
const rootDevice = "/dev/xvda";

/**
 * The request to register a snapshot as an image: a gp3 root disk that is deleted with its instance, enhanced networking, and a
 * metadata service that requires session tokens. No TPM, because cells keep no keys in one.
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
    // An x86_64 disk has boot loaders for UEFI and BIOS, because older x86_64 types have no UEFI.
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
