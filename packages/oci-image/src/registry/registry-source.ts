import { digestOf, isDigest } from "../digest.ts";
import { digestMismatch, ImageError } from "../errors.ts";
import { maxDocumentBytes, type FetchedManifest, type ImageSource } from "../image-source.ts";
import { mediaTypes, type Descriptor } from "../manifest.ts";
import { manifestIdOf, type Reference } from "../reference.ts";
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
  readonly proxy?: ProxyVariables | undefined;
  /** Minimum rate over a minute, below which a registry is given up. @default 1024 */
  readonly leastBytesPerSecond?: number | undefined;
}

/** An image in a registry or its mirrors. Disposing closes its connections. */
export function openRegistry(
  reference: Reference,
  registries: readonly RegistryConfig[],
  options: RegistrySourceOptions,
): ImageSource & AsyncDisposable {
  const common = {
    actions: "pull" as const,
    clock: options.retry.clock,
    proxy: options.proxy,
    leastBytesPerSecond: options.leastBytesPerSecond,
  };
  const config = registries.find(({ host }) => host === reference.registry);
  // A mirror gets one attempt, because the registry itself is available as well.
  const mirrors = (config?.mirrors ?? []).map((endpoint) => {
    const host = URL.parse(endpoint)?.host ?? endpoint;
    const known = registries.find((registry) => registry.host === host);
    const place = { ...reference, registry: host };
    return new RegistryClient(place, [{ ...known, host, endpoint }], common);
  });
  const origin = new RegistryClient(reference, registries, { ...common, retry: options.retry });
  const endpoints = new RegistryEndpoints([...mirrors, origin]);
  const name = `"${reference.repository}:${reference.tag ?? reference.digest}"`;
  return {
    root: async (signal) => {
      const id = manifestIdOf(reference);
      return await endpoints.first((client) => fetchManifest(client, { id, name, signal }), signal);
    },
    manifest: async ({ digest: id }, signal) =>
      await endpoints.first((client) => fetchManifest(client, { id, name, signal }), signal),
    blob: async (descriptor, signal) => {
      const stream = fetchBlob(endpoints, descriptor, signal);
      // Start reading here, so that a missing blob fails this call and not the later reading.
      return startingWith(await stream.next(), stream);
    },
    [Symbol.asyncDispose]: async () => await endpoints[Symbol.asyncDispose](),
  };
}

/** Whether a registry serves an image without a log-in, and if so, the digest that the name refers to. */
export type AnonymousAnswer =
  { readonly isPublic: true; readonly digest: string } | { readonly isPublic: false };

/**
 * Requests an image without credentials. Requests only its headers if they contain the digest. Does not use mirrors.
 *
 * @throws {ImageError} `REGISTRY_*` if it is unknown whether the image is public
 */
export async function askAnonymously(
  reference: Reference,
  registries: readonly RegistryConfig[],
  options: RegistrySourceOptions & { readonly signal?: AbortSignal | undefined },
): Promise<AnonymousAnswer> {
  const { retry, proxy, signal } = options;
  const known = registries.find(({ host }) => host === reference.registry);
  const anonymous: RegistryConfig = {
    host: reference.registry,
    endpoint: known?.endpoint,
    ca: known?.ca,
  };
  await using client = new RegistryClient(reference, [anonymous], {
    actions: "pull",
    retry,
    proxy,
  });
  const id = manifestIdOf(reference);
  try {
    const response = await client.request({
      method: "HEAD",
      path: `manifests/${id}`,
      headers: { accept },
      what: `the manifest ${id}`,
      accept: [200],
      signal,
    });
    response.resume();
    const header = response.headers["docker-content-digest"];
    if (typeof header === "string" && isDigest(header)) return { isPublic: true, digest: header };
    const { digest } = await fetchManifest(client, { id, name: id, signal });
    return { isPublic: true, digest };
  } catch (error) {
    // Many registries report a private image as missing.
    if (ImageError.is(error, "REGISTRY_UNAUTHORIZED", "IMAGE_NOT_FOUND"))
      return { isPublic: false };
    throw error;
  }
}

/** The mirrors in order, then the registry itself. A failed one is not used again in this pull. */
class RegistryEndpoints implements AsyncDisposable {
  readonly #clients: readonly RegistryClient[];
  #next = 0;

  constructor(clients: readonly RegistryClient[]) {
    this.#clients = clients;
  }

  async first<T>(
    request: (client: RegistryClient) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    for (;;) {
      const { client, leave } = this.next();
      try {
        return await request(client);
      } catch (error) {
        signal?.throwIfAborted();
        if (!leave()) throw error;
      }
    }
  }

  /** The registry to use now, and a function that switches to the next one, or returns false if there is none. */
  next(): { readonly client: RegistryClient; readonly leave: () => boolean } {
    const place = this.#next;
    const client = this.#clients[place];
    if (!client) throw new TypeError("There is no registry to ask");
    const leave = (): boolean => {
      if (place === this.#clients.length - 1) return false;
      this.#next = Math.max(this.#next, place + 1);
      return true;
    };
    return { client, leave };
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
  // The registry decides what a tag refers to, but its digest must match the bytes.
  const header = response.headers["docker-content-digest"];
  const expected = isDigest(id) ? id : typeof header === "string" ? header : digest;
  if (expected !== digest) throw digestMismatch("its manifest", expected, digest);
  const mediaType = response.headers["content-type"]?.split(";")[0]?.trim();
  return { bytes, digest, mediaType };
}

/** If a mirror fails in the middle, the rest comes from the next one. */
async function* fetchBlob(
  endpoints: RegistryEndpoints,
  { digest }: Descriptor,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void> {
  const request = {
    method: "GET" as const,
    path: `blobs/${digest}`,
    what: `blob ${digest}`,
    accept: [200],
    signal,
  };
  let received = 0;
  for (;;) {
    const { client, leave } = endpoints.next();
    try {
      for await (const chunk of client.stream(request, received)) {
        received += chunk.length;
        yield chunk;
      }
      return;
    } catch (error) {
      signal?.throwIfAborted();
      if (!leave()) throw error;
    }
  }
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
