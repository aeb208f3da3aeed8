import type { DescribeImagesCommandInput, Filter, Image } from "@aws-sdk/client-ec2";
import type { Clock } from "@kip/base";
import { type Architecture, CloudError } from "@kip/cloud";
import { allPages } from "../ec2/all-pages.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";

/** Facts about an image that a launch needs. */
export interface ImageFacts {
  /** Name of the root device, such as `/dev/xvda`. */
  readonly rootDevice: string;
  /** Size of the image's own root disk, GiB. */
  readonly rootGiB: number;
}

/** Keys of `cells.bootImageSpec`. */
const specKeys: readonly string[] = ["imageIDs", "owners", "executableUsers", "filters", "name"];
/** Image names if the specification has no key: those of `kip image build`. */
const usualName = "kip-cell-*";
/**
 * How long the newest image of a specification is cached, so that pods that start one after the other share a lookup,
 * milliseconds.
 */
const resolvedMs = 60_000;
/** Size of the cache of image facts, which never change. Clusters use fewer images at the same time. */
const mostKept = 100;

/** Boot images of cells. */
export class Images {
  readonly #ec2: Ec2;
  readonly #clock: Clock;
  readonly #facts = new Map<string, ImageFacts>();
  readonly #resolved = new Map<string, { readonly id: Promise<string>; readonly until: number }>();

  constructor(ec2: Ec2, clock: Clock) {
    this.#ec2 = ec2;
    this.#clock = clock;
  }

  /**
   * The newest matching image for the processor, cached for up to a minute. Without any key: the newest of the account's own
   * images named `kip-cell-*`.
   *
   * @throws {CloudError} `CLOUD_NOT_FOUND`, `CLOUD_INVALID_REQUEST` for an unknown key
   */
  async resolve(
    spec: Readonly<Record<string, string>>,
    architecture: Architecture = "amd64",
  ): Promise<string> {
    const key = JSON.stringify([architecture, spec]);
    const now = this.#clock.monotonic();
    const known = this.#resolved.get(key);
    if (known && now < known.until) return await known.id;
    if (this.#resolved.size >= mostKept) this.#resolved.clear();
    const id = this.#newest(spec, architecture).catch((error: unknown) => {
      this.#resolved.delete(key); // the next pod repeats the lookup
      throw error;
    });
    this.#resolved.set(key, { id, until: now + resolvedMs });
    return await id;
  }

  async #newest(
    spec: Readonly<Record<string, string>>,
    architecture: Architecture,
  ): Promise<string> {
    const images = await this.#describe(imageQuery(spec));
    const [newest] = images
      .filter(({ State }) => State === "available")
      .filter((image) => architectureOf(image) === architecture)
      .sort((a, b) => (b.CreationDate ?? "").localeCompare(a.CreationDate ?? ""));
    const id = newest?.ImageId;
    if (!newest || id === undefined) throw noneFor(architecture, spec);
    this.#keep(id, newest);
    return id;
  }

  /** @throws {CloudError} `CLOUD_NOT_FOUND` */
  async facts(id: string): Promise<ImageFacts> {
    const known = this.#facts.get(id);
    if (known) return known;
    const [image] = await this.#describe({ ImageIds: [id] });
    if (!image) throw notFound(id);
    return this.#keep(id, image);
  }

  /** Forgets an image that EC2 no longer has, so that the next pod looks for the newest one again. */
  forget(id: string): void {
    this.#facts.delete(id);
    this.#resolved.clear();
  }

  #keep(id: string, image: Image): ImageFacts {
    const rootDevice = image.RootDeviceName ?? "/dev/xvda";
    const root = image.BlockDeviceMappings?.find(({ DeviceName }) => DeviceName === rootDevice);
    const facts = { rootDevice, rootGiB: root?.Ebs?.VolumeSize ?? 1 };
    if (this.#facts.size >= mostKept) this.#facts.clear();
    this.#facts.set(id, facts);
    return facts;
  }

  async #describe(input: DescribeImagesCommandInput): Promise<readonly Image[]> {
    const purpose = "find an image";
    const pages = await allPages(this.#ec2, "DescribeImages", input, { purpose });
    return pages.flatMap(({ Images: images = [] }) => images);
  }
}

/** Undefined for images of Macs. EC2 calls their processors `arm64_mac` and `x86_64_mac`. */
function architectureOf({ Architecture: name = "x86_64" }: Image): Architecture | undefined {
  if (name.endsWith("_mac")) return undefined;
  return name === "arm64" ? "arm64" : "amd64";
}

function imageQuery(spec: Readonly<Record<string, string>>): DescribeImagesCommandInput {
  const unknown = Object.keys(spec).find((key) => !specKeys.includes(key));
  if (unknown !== undefined)
    throw new CloudError(
      "CLOUD_INVALID_REQUEST",
      `Cannot find an image: cells.bootImageSpec has the key "${unknown}"`,
      { remedy: `Use ${specKeys.join(", ")}` },
    );
  const { imageIDs, owners, executableUsers, filters = "", name } = spec;
  const hasKeys = Object.keys(spec).length > 0;
  const nameFilter = name ?? (hasKeys ? undefined : usualName);
  const all: Filter[] = words(filters).map(readFilter);
  if (nameFilter !== undefined) all.push({ Name: "name", Values: [nameFilter] });
  const own = imageIDs === undefined && executableUsers === undefined ? "self" : undefined;
  const ownerList = owners ?? own;
  return {
    // EC2 accepts only one of them.
    ...(imageIDs === undefined ? { MaxResults: 1000 } : { ImageIds: names(imageIDs) }),
    ...(ownerList !== undefined && { Owners: names(ownerList) }),
    ...(executableUsers !== undefined && { ExecutableUsers: names(executableUsers) }),
    ...(all.length > 0 && { Filters: all }),
  };
}

function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}

function names(text: string): string[] {
  return words(text.replaceAll(",", " "));
}

/** Parses `name=value,value`, the original's format. */
function readFilter(word: string): Filter {
  const at = word.indexOf("=");
  if (at <= 0)
    throw new CloudError(
      "CLOUD_INVALID_REQUEST",
      `Cannot find an image: "${word}" is not a filter`,
      {
        remedy: "Write filters as name=value, separated by blanks",
      },
    );
  return { Name: word.slice(0, at), Values: word.slice(at + 1).split(",") };
}

function noneFor(architecture: Architecture, spec: Readonly<Record<string, string>>): CloudError {
  const isUsual = Object.keys(spec).length === 0;
  const which = isUsual ? `none of this account is named "${usualName}"` : JSON.stringify(spec);
  return new CloudError("CLOUD_NOT_FOUND", `Cannot find an image for ${architecture}: ${which}`, {
    remedy: `Make one with kip image build --cloud=aws --architecture=${architecture}, or set cells.bootImageSpec to one of this region (docs/aws.md)`,
  });
}

function notFound(what: string): CloudError {
  return new CloudError("CLOUD_NOT_FOUND", `Cannot find image ${what}`, {
    remedy: "Set cells.bootImageSpec to an image of this region (docs/aws.md)",
  });
}
