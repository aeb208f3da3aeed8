import { ImageError } from "./errors.ts";
import type { Descriptor } from "./manifest.ts";

/** The platform of an image, with the names of Go and OCI. */
export interface Platform {
  /** For example `linux`. */
  readonly os: string;
  /** For example `amd64` or `arm64`. */
  readonly architecture: string;
  /** For example `v7`. */
  readonly variant?: string | undefined;
}

const goNames: Readonly<Record<string, string>> = { x64: "amd64", ia32: "386", loong64: "loong64" };

/** Linux on the architecture of this process. */
export function hostPlatform(): Platform {
  const architecture = goNames[process.arch] ?? process.arch;
  return architecture === "arm64"
    ? { os: "linux", architecture, variant: "v8" }
    : { os: "linux", architecture };
}

/** Parses a platform such as `linux/arm/v7`. Undefined if the text is not valid. */
export function parsePlatform(text: string): Platform | undefined {
  const [os = "", architecture = "", variant, ...more] = text.split("/");
  if (os === "" || architecture === "" || more.length > 0) return undefined;
  return { os, architecture, variant };
}

/** The platform as text, for example `linux/arm/v7`. */
export function formatPlatform(platform: Platform): string {
  return [platform.os, platform.architecture, platform.variant].filter(Boolean).join("/");
}

/**
 * The first manifest of an index for a platform. One with the same variant comes before one with another or no variant.
 *
 * @throws {ImageError} code `IMAGE_NOT_FOUND`, naming the existing platforms
 */
export function choosePlatform(manifests: readonly Descriptor[], wanted: Platform): Descriptor {
  const fitting = manifests.filter(({ platform }) => platform && runsOn(platform, wanted));
  const exact = fitting.find(({ platform }) => platform?.variant === wanted.variant);
  // Small builders write an index without platforms for a single image.
  const unmarked = manifests.filter(({ platform }) => platform === undefined);
  const chosen = exact ?? fitting[0] ?? (manifests.length === 1 ? unmarked[0] : undefined);
  if (chosen !== undefined) return chosen;
  const there = manifests.flatMap(({ platform }) =>
    platform && platform.os !== "unknown" ? [formatPlatform(platform)] : [],
  );
  throw wrongPlatform(wanted, there.length === 0 ? "no platform" : there.join(", "));
}

/** Names of Go's architectures in uname(2) and elsewhere. Some builders write them, and containerd accepts them. */
const otherNames: ReadonlyMap<string, string> = new Map([
  ["x86_64", "amd64"],
  ["x86-64", "amd64"],
  ["aarch64", "arm64"],
  ["i386", "386"],
]);

/** Whether an image for one platform runs on another. Ignores variants. A missing operating system means Linux. */
export function runsOn(platform: Platform, wanted: Platform): boolean {
  const { os, architecture } = platform;
  const architectureInGo = otherNames.get(architecture) ?? architecture;
  return (os === "" ? "linux" : os) === wanted.os && architectureInGo === wanted.architecture;
}

/** The error when an image does not support a platform. */
export function wrongPlatform(wanted: Platform, there: string): Error {
  return new ImageError(
    "IMAGE_NOT_FOUND",
    `it is not made for ${formatPlatform(wanted)} but for ${there}`,
    {
      wantedPlatform: formatPlatform(wanted),
      remedy: "Build the image for that platform, or ask for an instance type of another",
    },
  );
}

/** Whether an error is one of {@link wrongPlatform}. If the image does not exist at all, the error is a different one. */
export function isWrongPlatform(error: unknown): boolean {
  return error instanceof ImageError && error.wantedPlatform !== undefined;
}
