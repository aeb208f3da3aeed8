import { randomUUID } from "node:crypto";
import { cellServerName, type waitForAgent } from "@kip/agent-api";
import type { Instance } from "@kip/cloud";
import type { LocalCloud } from "@kip/cloud-local";
import type { CertificateAuthority } from "@kip/pki";

const validMs = 3_600_000;

/** A machine with an agent. */
export interface LaunchedCell {
  readonly instance: Instance;
  /** How to connect to its agent. */
  readonly access: Pick<
    Parameters<typeof waitForAgent>[0],
    "address" | "cellName" | "ca" | "certificate" | "key"
  >;
}

/** Starts a machine whose agent has an identity from this authority, and waits until it runs. */
export async function launchCell(
  cloud: LocalCloud,
  authority: CertificateAuthority,
  cell: { readonly name: string; readonly image: string; readonly instanceType: string },
): Promise<LaunchedCell> {
  const { name } = cell;
  const names = { commonName: name, dnsNames: [cellServerName(name)], validMs };
  const server = await authority.issue({ ...names, usages: ["server"] });
  const identity = { cellName: name, ca: authority.certificate, ...server };
  const file = { path: "/var/lib/itzo/identity.json", content: JSON.stringify(identity) };
  const { id } = await cloud.launch({
    ...cell,
    token: randomUUID(),
    launchType: "on-demand",
    rootDiskBytes: 0,
    userData: Buffer.from(`#cloud-config\n${JSON.stringify({ write_files: [file] })}`),
    privateIpOnly: true,
    tags: {},
  });
  const instance = await cloud.waitForRunning(id);
  const kip = await authority.issue({ commonName: "kip", usages: ["client"], validMs });
  const address = instance.managementIp ?? "";
  return { instance, access: { address, cellName: name, ca: authority.certificate, ...kip } };
}
