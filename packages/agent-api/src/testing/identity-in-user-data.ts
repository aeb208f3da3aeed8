import { gunzipSync } from "node:zlib";
import { decodeCellIdentity, type CellIdentity } from "../agent-info.ts";

/** Extracts the identity from user data that kip wrote. */
export function identityInUserData(userData: Uint8Array): CellIdentity {
  const isCompressed = userData[0] === 0x1f;
  const text = Buffer.from(isCompressed ? gunzipSync(userData) : userData).toString();
  const document = JSON.parse(text.slice(text.indexOf("\n") + 1)) as {
    readonly write_files: readonly { readonly content: string }[]; // kip's own format
  };
  return decodeCellIdentity(JSON.parse(document.write_files[0]?.content ?? ""), "identity");
}
