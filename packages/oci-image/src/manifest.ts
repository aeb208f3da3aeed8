import { decode, type Decoder } from "@kip/base";
import { isDigest } from "./digest.ts";
import { invalidImage } from "./errors.ts";
import type { Platform } from "./platform.ts";

/** Media types of OCI and Docker. Their documents have the same form. */
export const mediaTypes = {
  ociIndex: "application/vnd.oci.image.index.v1+json",
  ociManifest: "application/vnd.oci.image.manifest.v1+json",
  dockerList: "application/vnd.docker.distribution.manifest.list.v2+json",
  dockerManifest: "application/vnd.docker.distribution.manifest.v2+json",
  ociConfig: "application/vnd.oci.image.config.v1+json",
  dockerConfig: "application/vnd.docker.container.image.v1+json",
} as const;

/** Refers to content by its digest. */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly platform?: Platform | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/** An image for one platform. */
export interface Manifest {
  readonly kind: "manifest";
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}

/** Several manifests, usually one per platform. */
export interface Index {
  readonly kind: "index";
  readonly manifests: readonly Descriptor[];
}

const knownTypes: readonly string[] = Object.values(mediaTypes);

const digest: Decoder<string> = (value, path) => {
  const text = decode.string(value, path);
  if (!isDigest(text)) throw invalidImage(`${path} is no sha256 digest: ${JSON.stringify(text)}`);
  return text;
};

const size: Decoder<number> = (value, path) => {
  const bytes = decode.integer(value, path);
  if (bytes < 0) throw invalidImage(`${path} is negative`);
  return bytes;
};

const descriptor: Decoder<Descriptor> = decode.object({
  mediaType: decode.string,
  digest,
  size,
  platform: decode.optional(
    decode.object({
      os: decode.string,
      architecture: decode.string,
      variant: decode.optional(decode.string),
    }),
  ),
  annotations: decode.optional(decode.map(decode.string)),
});

const document = decode.object({
  schemaVersion: decode.integer,
  mediaType: decode.optional(decode.string),
  config: decode.optional(descriptor),
  layers: decode.optional(decode.list(descriptor)),
  manifests: decode.optional(decode.list(descriptor)),
});

/** Parses JSON from a stranger. `what` names it in an error. */
export function parseJson<T>(bytes: Uint8Array, decoder: Decoder<T>, what: string): T {
  try {
    return decoder(JSON.parse(new TextDecoder().decode(bytes)), "");
  } catch (error) {
    throw invalidImage(`its ${what} is not as it must be`, error);
  }
}

/**
 * Parses a manifest or an index. `contentType` is the type from the registry or the descriptor. Refuses a document that could
 * be either, or that states another type (CVE-2021-41190).
 *
 * @throws {ImageError} code `IMAGE_INVALID`
 */
export function parseManifest(
  bytes: Uint8Array,
  contentType: string | undefined,
): Manifest | Index {
  const parsed = parseJson(bytes, document, "manifest");
  if (parsed.schemaVersion === 1) {
    throw invalidImage("its manifest is of schema 1, which Docker withdrew in 2019");
  }
  if (parsed.schemaVersion !== 2) {
    throw invalidImage(`its manifest is of schema ${parsed.schemaVersion}, which is not known`);
  }
  const statedType = knownTypes.find((type) => type === contentType);
  if (
    statedType !== undefined &&
    parsed.mediaType !== undefined &&
    statedType !== parsed.mediaType
  ) {
    throw invalidImage(`its manifest was sent as ${statedType} but says it is ${parsed.mediaType}`);
  }
  const { config, layers, manifests } = parsed;
  const type = parsed.mediaType ?? statedType;
  const isIndex = type === mediaTypes.ociIndex || type === mediaTypes.dockerList;
  const isManifest = type === mediaTypes.ociManifest || type === mediaTypes.dockerManifest;
  if (manifests !== undefined) {
    if (layers || config || isManifest) throw invalidImage("its index claims to be a manifest");
    return { kind: "index", manifests };
  }
  if (isIndex) throw invalidImage("its index has the shape of a manifest");
  if (!config || !layers) throw invalidImage("its manifest lacks a configuration or layers");
  return { kind: "manifest", config, layers };
}
