import type { Image, RegisterImageCommandInput } from "@aws-sdk/client-ec2";
import type { Clock } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { allPages } from "../ec2/all-pages.ts";
import type { Ec2 } from "../ec2/ec2-calls.ts";
import { awsCodeOf } from "../errors/cloud-error-of.ts";
import { imageTags } from "./snapshots.ts";

/** Maximum time until a registered image is available, milliseconds. */
const availableLimitMs = 600_000;

/** The account's own cell images. */
export class Amis {
  readonly #options: { readonly ec2: Ec2; readonly clock: Clock; readonly pollMs: number };

  constructor(options: { readonly ec2: Ec2; readonly clock: Clock; readonly pollMs: number }) {
    this.#options = options;
  }

  /** ID of the image with this name. */
  async find(name: string, signal?: AbortSignal): Promise<string | undefined> {
    return (await this.#describe({ Name: "name", Values: [name] }, signal))[0]?.ImageId;
  }

  /** Snapshots that the images use. */
  async snapshotsInUse(signal?: AbortSignal): Promise<ReadonlySet<string>> {
    const images = await this.#describe({ Name: "tag-key", Values: [imageTags.disk] }, signal);
    const mappings = images.flatMap(({ BlockDeviceMappings = [] }) => BlockDeviceMappings);
    return new Set(mappings.flatMap(({ Ebs }) => Ebs?.SnapshotId ?? []));
  }

  /** Registers an image. Returns the existing one if there is one with this name. */
  async register(
    request: RegisterImageCommandInput & { readonly Name: string },
    signal?: AbortSignal,
  ): Promise<string> {
    const purpose = `register image "${request.Name}"`;
    try {
      const { ImageId } = await this.#options.ec2.call("RegisterImage", request, {
        purpose,
        signal,
      });
      if (ImageId !== undefined) return ImageId;
      throw new CloudError("CLOUD_UNKNOWN", `Cannot ${purpose}: the answer names none`);
    } catch (error) {
      // An attempt whose response was lost has registered it, or another build has.
      if (awsCodeOf(error) !== "InvalidAMIName.Duplicate") throw error;
      const found = await this.find(request.Name, signal);
      if (found === undefined) throw error;
      return found;
    }
  }

  /** @throws {CloudError} `CLOUD_UNKNOWN` if EC2 gives up on the image, `CLOUD_UNAVAILABLE` after ten minutes */
  async waitUntilAvailable(id: string, signal?: AbortSignal): Promise<void> {
    const { clock, pollMs } = this.#options;
    const began = clock.monotonic();
    for (;;) {
      const [image] = await this.#describe({ Name: "image-id", Values: [id] }, signal);
      if (image?.State === "available") return;
      const failure = `Cannot use image ${id}`;
      if (image?.State !== undefined && image.State !== "pending")
        throw new CloudError(
          "CLOUD_UNKNOWN",
          `${failure}: it is ${image.State}: ${image.StateReason?.Message ?? "EC2 says no more"}`,
          { remedy: `Remove it (aws ec2 deregister-image --image-id ${id}), and build again` },
        );
      if (clock.monotonic() - began > availableLimitMs)
        throw new CloudError(
          "CLOUD_UNAVAILABLE",
          `${failure}: it is not available after ${availableLimitMs / 60_000} min`,
        );
      await clock.sleep(pollMs, signal);
    }
  }

  async #describe(
    filter: { Name: string; Values: string[] },
    signal: AbortSignal | undefined,
  ): Promise<readonly Image[]> {
    const input = { Owners: ["self"], Filters: [filter], MaxResults: 1000 };
    const purpose = "find an image";
    const pages = await allPages(this.#options.ec2, "DescribeImages", input, { purpose, signal });
    return pages.flatMap(({ Images = [] }) => Images);
  }
}
