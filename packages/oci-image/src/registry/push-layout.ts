import { digestOf, verified } from "../digest.ts";
import { failedTo } from "../errors.ts";
import { chooseDescriptor, openLayout, readBlob } from "../layout/layout-source.ts";
import { parseManifest, type Descriptor } from "../manifest.ts";
import { formatReference, type Reference } from "../reference.ts";
import { RegistryClient } from "./registry-client.ts";
import type { RegistryConfig } from "./registry-config.ts";

/** Options of {@link pushLayout}. */
export interface PushOptions {
  readonly registries: readonly RegistryConfig[];
  readonly signal?: AbortSignal | undefined;
}

/**
 * Pushes the image of an OCI layout folder to a registry. If the layout has several images, pushes the one annotated with the
 * reference's tag or full name. Skips blobs that the registry already has.
 *
 * @returns the digest that the reference now points at
 * @throws {ImageError} the codes of `ImageStore.pull`
 */
export async function pushLayout(
  layoutDir: string,
  reference: Reference,
  options: PushOptions,
): Promise<{ readonly digest: string }> {
  try {
    await using client = new RegistryClient(reference, options.registries, {
      actions: "pull,push",
    });
    const push = new LayoutPush(client, layoutDir, options.signal);
    const root = await chooseDescriptor(layoutDir, reference);
    return { digest: await push.manifest(root, reference, reference.tag ?? root.digest) };
  } catch (error) {
    throw failedTo(`push image "${formatReference(reference)}"`, error);
  }
}

class LayoutPush {
  readonly #client: RegistryClient;
  readonly #folder: string;
  readonly #signal: AbortSignal | undefined;

  constructor(client: RegistryClient, folder: string, signal: AbortSignal | undefined) {
    this.#client = client;
    this.#folder = folder;
    this.#signal = signal;
  }

  /** Pushes a manifest after everything that it refers to, because registries check that. */
  async manifest(descriptor: Descriptor, reference: Reference, id: string): Promise<string> {
    const { bytes } = await openLayout(this.#folder, reference).manifest(descriptor);
    const parsed = parseManifest(bytes, descriptor.mediaType);
    if (parsed.kind === "index") {
      for (const child of parsed.manifests) await this.manifest(child, reference, child.digest);
    } else {
      for (const blob of [parsed.config, ...parsed.layers]) await this.#blob(blob);
    }
    const response = await this.#client.request({
      method: "PUT",
      path: `manifests/${id}`,
      headers: { "content-type": descriptor.mediaType, "content-length": `${bytes.length}` },
      body: bytes,
      what: `the manifest ${id}`,
      accept: [201, 202],
      signal: this.#signal,
    });
    response.resume();
    return digestOf(bytes);
  }

  async #blob(blob: Descriptor): Promise<void> {
    const what = `blob ${blob.digest}`;
    const signal = this.#signal;
    const path = `blobs/${blob.digest}`;
    const head = await this.#client.request({
      method: "HEAD",
      path,
      what,
      accept: [200, 404],
      signal,
    });
    head.resume();
    if (head.statusCode === 200) return;
    const start = await this.#client.request({
      method: "POST",
      path: "blobs/uploads/",
      headers: { "content-length": "0" },
      what: `an upload of ${what}`,
      accept: [202],
      signal,
    });
    start.resume();
    const url = this.#client.resolve(start.headers.location);
    url.searchParams.set("digest", blob.digest);
    const done = await this.#client.request({
      method: "PUT",
      path: url,
      headers: {
        "content-type": "application/octet-stream",
        "content-length": `${blob.size}`,
      },
      body: verified(readBlob(this.#folder, blob), blob),
      what,
      accept: [201],
      signal,
    });
    done.resume();
  }
}
