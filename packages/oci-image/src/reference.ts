import { isDigest } from "./digest.ts";
import { ImageError, printable } from "./errors.ts";

/** The parts of an image name. See {@link parseReference}. */
export interface Reference {
  /** Registry host, with its port if there is one, for example `docker.io` or `localhost:5000`. */
  readonly registry: string;
  /** Path in the registry, for example `library/busybox`. */
  readonly repository: string;
  /** The tag. `latest` if the name has neither tag nor digest. Absent if it only has a digest. */
  readonly tag?: string | undefined;
  /** `sha256:<64 hex digits>`. Takes precedence over the tag. */
  readonly digest?: string | undefined;
}

const hostPattern =
  /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(?::\d{1,5})?$/;
const pathPartPattern = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const tagPattern = /^\w[\w.-]{0,127}$/;

/**
 * Parses an image name in the form that Kubernetes users write: `busybox`, `user/app:1`, `localhost:5000/app`,
 * `quay.io/a/b@sha256:…`. A name without a registry belongs to Docker Hub. A single word there is in `library/`. The first part
 * is a registry if it contains a dot or a port, or is `localhost`.
 *
 * @throws {ImageError} code `IMAGE_NAME_INVALID`
 *
 * @example
 * ```ts
 * import { formatReference, parseReference } from "@kip/oci-image";
 *
 * const reference = parseReference("busybox");
 * assert.deepEqual(reference, { registry: "docker.io", repository: "library/busybox", tag: "latest" });
 * assert.equal(formatReference(reference), "docker.io/library/busybox:latest");
 * ```
 */
export function parseReference(text: string): Reference {
  const [beforeDigest = "", digest, ...more] = text.split("@");
  if (more.length > 0) throw invalid(text, 'it has more than one "@"');
  if (digest !== undefined && !isDigest(digest)) {
    throw invalid(text, `"${digest}" is not a digest of the form sha256:<64 hex digits>`);
  }
  const { registry, rest } = splitRegistry(beforeDigest);
  if (!hostPattern.test(registry)) throw invalid(text, `"${registry}" is not a registry host`);
  const colon = rest.indexOf(":");
  const path = colon === -1 ? rest : rest.slice(0, colon);
  const tag = colon === -1 ? undefined : rest.slice(colon + 1);
  if (tag !== undefined && !tagPattern.test(tag))
    throw invalid(text, `"${tag}" is not a valid tag`);
  checkRepository(text, path);
  const repository = registry === "docker.io" && !path.includes("/") ? `library/${path}` : path;
  if (digest === undefined) return { registry, repository, tag: tag ?? "latest" };
  return { registry, repository, tag, digest };
}

/** The ID to request from a registry: the digest, or else the tag. */
export function manifestIdOf({ digest, tag = "latest" }: Reference): string {
  return digest ?? tag;
}

/** The full name: registry, repository, tag and digest. */
export function formatReference(reference: Reference): string {
  const tag = reference.tag === undefined ? "" : `:${reference.tag}`;
  const digest = reference.digest === undefined ? "" : `@${reference.digest}`;
  return `${reference.registry}/${reference.repository}${tag}${digest}`;
}

function splitRegistry(text: string): { readonly registry: string; readonly rest: string } {
  const slash = text.indexOf("/");
  const first = text.slice(0, slash);
  const isHost = slash > 0 && (/[.:]/.test(first) || first.toLowerCase() === "localhost");
  if (!isHost) return { registry: "docker.io", rest: text };
  const host = first.toLowerCase();
  return { registry: host === "index.docker.io" ? "docker.io" : host, rest: text.slice(slash + 1) };
}

function checkRepository(text: string, path: string): void {
  if (path === "") throw invalid(text, "it names no repository");
  if (path.length > 255) throw invalid(text, "its repository is longer than 255 characters");
  for (const part of path.split("/")) {
    if (pathPartPattern.test(part)) continue;
    const reason = /[A-Z]/.test(part)
      ? "repositories are lower case"
      : `"${part}" is not a valid path part`;
    throw invalid(text, reason);
  }
}

function invalid(text: string, reason: string): ImageError {
  return new ImageError("IMAGE_NAME_INVALID", printable(reason, 300), {
    action: `read image name "${printable(text, 300)}"`,
    remedy: "Write [registry/]repository[:tag][@digest], for example localhost:5000/app:1",
  });
}
