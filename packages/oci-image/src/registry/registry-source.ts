import { digestOf, isDigest } from "../digest.ts";
import { digestMismatch } from "../errors.ts";
import { maxDocumentBytes, type FetchedManifest, type ImageSource } from "../image-source.ts";
import { mediaTypes, type Descriptor } from "../manifest.ts";
import type { Reference } from "../reference.ts";
import { readBody, type ProxyVariables } from "./http-exchange.ts";
import { RegistryClient } from "./registry-client.ts";
import type { RegistryConfig } from "./registry-config.ts";
import type { RetryOptions } from "./retry.ts";

const accept = [
  mediaTypes.ociIndex,
  mediaTypes.ociManifest,
  mediaTypes.dockerList,
  mediaTypes.dockerManifest,
].join(", ");

/** Options of {@link openRegistry}. */
export interface RegistrySourceOptions {
  readonly retry: RetryOptions;
  readonly proxy?: ProxyVariables;
}

/** An image in a registry or its mirrors. Dispose of it to close its connections. */
export function openRegistry(
  reference: Reference,
  registries: readonly RegistryConfig[],
  options: RegistrySourceOptions,
): ImageSource & AsyncDisposable {
  const common = { actions: "pull" as const, ...(options.proxy && { proxy: options.proxy }) };
  const config = registries.find(({ host }) => host === reference.registry);
  // A mirror is asked once: the registry itself is there to turn to.
  const mirrors = (config?.mirrors ?? []).map((endpoint) => {
    const host = URL.parse(endpoint)?.host ?? endpoint;
    const known = registries.find((registry) => registry.host === host);
    const place = { ...reference, registry: host };
    return new RegistryClient(place, [{ ...known, host, endpoint }], common);
  });
  const origin = new RegistryClient(reference, registries, { ...common, retry: options.retry });
  const places = new Places([...mirrors, origin]);
  const name = `"${reference.repository}:${reference.tag ?? reference.digest}"`;
  return {
    root: async (signal) => {
      const id = reference.digest ?? reference.tag ?? "";
      return await places.first((client) => fetchManifest(client, { id, name, signal }), signal);
    },
    manifest: async ({ digest: id }, signal) =>
      await places.first((client) => fetchManifest(client, { id, name, signal }), signal),
    blob: async (descriptor, signal) =>
      await places.first((client) => fetchBlob(client, descriptor, signal), signal),
    [Symbol.asyncDispose]: async () => await places[Symbol.asyncDispose](),
  };
}

/** Mirrors in order, the registry itself last. One that failed is not asked again in this pull. */
class Places implements AsyncDisposable {
  readonly #clients: readonly RegistryClient[];
  #next = 0;

  constructor(clients: readonly RegistryClient[]) {
    this.#clients = clients;
  }

  async first<T>(
    ask: (client: RegistryClient) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    for (;;) {
      const place = this.#next;
      const client = this.#clients[place];
      if (!client) throw new TypeError("There is no registry to ask");
      try {
        return await ask(client);
      } catch (error) {
        signal?.throwIfAborted();
        if (place === this.#clients.length - 1) throw error;
        this.#next = Math.max(this.#next, place + 1);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) await client[Symbol.asyncDispose]();
  }
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

/** The stream begins here, so that a mirror without the blob is noticed. */
async function fetchBlob(
  client: RegistryClient,
  { digest }: Descriptor,
  signal: AbortSignal | undefined,
): Promise<AsyncIterable<Uint8Array>> {
  const stream = client.stream({
    method: "GET",
    path: `blobs/${digest}`,
    what: `blob ${digest}`,
    accept: [200],
    signal,
  });
  const first = await stream.next();
  return startingWith(first, stream);
}

async function* startingWith(
  first: IteratorResult<Uint8Array, void>,
  rest: AsyncGenerator<Uint8Array, void>,
): AsyncGenerator<Uint8Array> {
  try {
    if (first.done) return;
    yield first.value;
    yield* rest;
  } finally {
    await rest.return();
  }
}
