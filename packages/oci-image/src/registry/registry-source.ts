import { digestOf, isDigest } from "../digest.ts";
import { digestMismatch } from "../errors.ts";
import { maxDocumentBytes, type FetchedManifest, type ImageSource } from "../image-source.ts";
import { mediaTypes, type Descriptor } from "../manifest.ts";
import type { Reference } from "../reference.ts";
import { readBody } from "./http-exchange.ts";
import { RegistryClient } from "./registry-client.ts";
import type { RegistryConfig } from "./registry-config.ts";

const accept = [
  mediaTypes.ociIndex,
  mediaTypes.ociManifest,
  mediaTypes.dockerList,
  mediaTypes.dockerManifest,
].join(", ");

/** An image in a registry. Dispose of it to close its connections. */
export function openRegistry(
  reference: Reference,
  registries: readonly RegistryConfig[],
): ImageSource & AsyncDisposable {
  const client = new RegistryClient(reference, registries, "pull");
  const name = `"${reference.repository}:${reference.tag ?? reference.digest}"`;
  return {
    root: async (signal) =>
      await fetchManifest(client, { id: reference.digest ?? reference.tag ?? "", name, signal }),
    manifest: async (descriptor, signal) =>
      await fetchManifest(client, { id: descriptor.digest, name, signal }),
    blob: async (descriptor, signal) => await fetchBlob(client, descriptor, signal),
    [Symbol.asyncDispose]: async () => await client[Symbol.asyncDispose](),
  };
}

async function fetchManifest(
  client: RegistryClient,
  wanted: { readonly id: string; readonly name: string; readonly signal: AbortSignal | undefined },
): Promise<FetchedManifest> {
  const { id, name, signal } = wanted;
  const response = await client.request({
    method: "GET",
    path: `manifests/${id}`,
    headers: { accept },
    what: isDigest(id) ? `${name} with digest ${id}` : name,
    accept: [200],
    signal,
  });
  const bytes = await readBody(client.body(response, signal), maxDocumentBytes);
  const digest = digestOf(bytes);
  // What a tag means is the registry's word, but bytes and the digest it gives must agree.
  const header = response.headers["docker-content-digest"];
  const expected = isDigest(id) ? id : typeof header === "string" ? header : digest;
  if (expected !== digest) throw digestMismatch("its manifest", expected, digest);
  const mediaType = response.headers["content-type"]?.split(";")[0]?.trim();
  return { bytes, digest, ...(mediaType !== undefined && { mediaType }) };
}

async function fetchBlob(
  client: RegistryClient,
  { digest }: Descriptor,
  signal: AbortSignal | undefined,
): Promise<AsyncIterable<Uint8Array>> {
  const response = await client.request({
    method: "GET",
    path: `blobs/${digest}`,
    what: `blob ${digest}`,
    accept: [200],
    signal,
  });
  return client.body(response, signal);
}
