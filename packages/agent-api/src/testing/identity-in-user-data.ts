import { gunzipSync } from "node:zlib";
import { decodeCellIdentity, type CellIdentity } from "../agent-info.ts";

/** The identity in a machine's user data, as kip writes it. */
export function identityInUserData(userData: Uint8Array): CellIdentity {
  const isCompressed = userData[0] === 0x1f;
  const text = Buffer.from(isCompressed ? gunzipSync(userData) : userData).toString();
  const document = JSON.parse(text.slice(text.indexOf("\n") + 1)) as {
    readonly write_files: readonly { readonly content: string }[]; // as kip writes it
  };
  return decodeCellIdentity(JSON.parse(document.write_files[0]?.content ?? ""), "identity");
}
