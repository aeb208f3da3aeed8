import { decodeCellIdentity, type CellIdentity } from "../agent-info.ts";

/** The identity in a machine's user data, as kip writes it. */
export function identityInUserData(userData: string): CellIdentity {
  const document = JSON.parse(userData.slice(userData.indexOf("\n") + 1)) as {
    readonly write_files: readonly { readonly content: string }[]; // as kip writes it
  };
  return decodeCellIdentity(JSON.parse(document.write_files[0]?.content ?? ""), "identity");
}
