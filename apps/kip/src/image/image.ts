import path from "node:path";
import {
  hostArchitecture,
  type Option,
  OptionError,
  type OptionValues,
  silentLogger,
  systemClock,
} from "@kip/base";
import { awsSettings } from "../aws/aws-settings.ts";
import { readArchitecture } from "../cli/architectures.ts";
import { parseCommand } from "../cli/parse-command.ts";
import { separateWords } from "../cli/separate-words.ts";
import { stopRequest } from "../cli/stop-request.ts";
import { startProgress } from "../cli/task-progress.ts";
import { builtText } from "./built-text.ts";

const usage = `Usage: kip image build --cloud=aws [options]

Builds the disk that cells boot, and makes an AWS image (AMI) of it in one region. It uploads the
disk by the EBS direct API and starts no instance. Prints the ID of the image; if the same image
exists already, only its ID is printed. A build that is interrupted removes what it has made; one
that was killed is finished by the next one. Needs root, Debian or a system derived from it, and AWS
credentials with the rights that kip iam print --image-build prints.

Example: kip image build --cloud=aws --region=eu-central-1`;

const options: readonly Option[] = [
  { flag: "cloud", type: "string", help: "cloud of the image; aws is the only one" },
  {
    flag: "region",
    type: "string",
    help: "region of the image; default AWS_REGION, AWS_DEFAULT_REGION, cloud.aws.region, that of this machine",
  },
  {
    flag: "architecture",
    type: "string",
    help: "processor of the machines, amd64 or arm64; default that of this computer",
  },
  {
    flag: "provider-config",
    type: "string",
    help: "provider.yaml, for the region, the keys and the endpoint in its section cloud.aws",
  },
  {
    flag: "cache-dir",
    type: "string",
    env: "KIP_CACHE_DIR",
    fallback: "/var/cache/kip",
    help: "folder for images and their parts",
  },
  {
    flag: "refresh-image",
    type: "boolean",
    help: "rebuild the operating system of cells with Debian's security updates",
  },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** Runs `kip image`. */
export async function imageCommand(args: readonly string[]): Promise<void> {
  const { words, flags } = separateWords(args);
  const values = parseCommand(usage, options, flags);
  if (!values) return;
  const remedy = "See kip image --help";
  if (words.length !== 1 || words[0] !== "build")
    throw new OptionError("OPTION_MISSING", "Cannot make an image: write kip image build", {
      remedy,
    });
  const cloud = values.text("cloud");
  if (cloud !== "aws") {
    const why =
      cloud === undefined ? "--cloud is missing" : `this version makes none for "${cloud}"`;
    throw new OptionError("OPTION_INVALID", `Cannot make an image: ${why}`, {
      remedy: "Use --cloud=aws; the local cloud makes its images by itself",
    });
  }
  await build(values);
}

async function build(values: OptionValues): Promise<void> {
  const wanted = values.text("architecture");
  const architecture = wanted === undefined ? hostArchitecture : readArchitecture(wanted);
  const settings = await awsSettings({
    region: values.text("region"),
    file: values.text("provider-config"),
    purpose: "make an image",
  });
  const stop = stopRequest();
  const { buildBootDisk, buildCellImage } = await import("@kip/cell-image");
  const { buildAmi } = await import("@kip/cloud-aws/ami");
  const common = { cacheDir: path.resolve(values.required("cache-dir")), signal: stop.signal };
  const agentEntry = path.join(import.meta.dirname, "../../../itzo/src/main.ts");
  const refresh = values.isSet("refresh-image");
  await using progress = startProgress({ output: process.stderr, clock: systemClock });
  const image = await progress.run("Cell image", async (onProgress) =>
    buildCellImage({
      ...common,
      agentEntry,
      architecture,
      refresh,
      logger: silentLogger,
      onProgress,
    }),
  );
  const disk = await progress.run("Disk", async (onProgress) =>
    buildBootDisk({ ...common, image, onProgress }),
  );
  const built = await progress.run("AMI", async (onProgress) =>
    buildAmi({
      ...settings,
      disk: disk.file,
      imageId: image.id,
      architecture: disk.architecture === "arm64" ? "arm64" : "x86_64",
      signal: stop.signal,
      onProgress,
    }),
  );
  process.stderr.write(builtText(built));
  process.stdout.write(`${built.id}\n`);
}
