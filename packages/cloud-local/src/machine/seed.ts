import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { runCommand } from "@kip/base";

/** The data that a machine reads at its first boot. */
export interface SeedContent {
  readonly instanceId: string;
  readonly hostname: string;
  readonly userData: Uint8Array;
  /** CIDR. */
  readonly address: string;
  readonly gateway: string;
  readonly nameservers: readonly string[];
}

/**
 * Writes the NoCloud seed disk: an ISO 9660 image with the label CIDATA.
 *
 * @see https://docs.cloud-init.io/en/latest/reference/datasources/nocloud.html
 */
export async function writeSeed(file: string, content: SeedContent): Promise<void> {
  const folder = await mkdtemp(path.join(path.dirname(file), "seed-"));
  try {
    for (const [name, data] of seedFiles(content))
      await writeFile(path.join(folder, name), data, { mode: 0o600 });
    const draft = path.join(folder, "..", "seed.new");
    await runCommand("genisoimage", ["-quiet", "-V", "CIDATA", "-r", "-J", "-o", draft, folder]);
    await rename(draft, file);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Names and contents of the seed's files. */
export function seedFiles(
  content: SeedContent,
): readonly (readonly [name: string, content: string | Uint8Array])[] {
  const meta = { "instance-id": content.instanceId, "local-hostname": content.hostname };
  const network = {
    version: 2,
    ethernets: {
      eth0: {
        addresses: [content.address],
        routes: [{ to: "default", via: content.gateway }],
        nameservers: { addresses: content.nameservers },
      },
    },
  };
  return [
    ["user-data", content.userData],
    ["meta-data", JSON.stringify(meta)], // JSON is also YAML
    ["network-config", JSON.stringify(network)],
  ];
}
