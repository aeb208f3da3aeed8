import type { CellIdentity } from "@kip/agent-api";

/** Where the agent finds its identity. */
export const identityPath = "/var/lib/itzo/identity.json";

/**
 * The user data of a cell: a `#cloud-config` document that writes the agent's identity. The body is
 * JSON, which every YAML reader takes. It holds no credential of the cluster.
 */
export function userData(identity: CellIdentity): string {
  const document = {
    write_files: [
      {
        path: identityPath,
        permissions: "0600",
        owner: "root:root",
        content: JSON.stringify(identity),
      },
    ],
  };
  return `#cloud-config\n${JSON.stringify(document)}\n`;
}
