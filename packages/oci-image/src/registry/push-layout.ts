import type { Reference } from "../reference.ts";
import type { RegistryConfig } from "./registry-config.ts";

/** Puts the image of an OCI layout folder into a registry. Blobs the registry has are not sent. */
export async function pushLayout(
  _layoutDir: string,
  _reference: Reference,
  _options: { readonly registries: readonly RegistryConfig[]; readonly signal?: AbortSignal },
): Promise<{ readonly digest: string }> {
  throw new Error("not yet");
}
