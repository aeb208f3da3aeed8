// Builds the container image of kip or virtual-kubelet (deploy/images), and pushes it.
//   node tools/build-image.ts [--image virtual-kubelet] [--push REGISTRY/NAME:TAG] [--architecture amd64] [--output FOLDER]
//   node tools/build-image.ts --update-packages    takes the versions of Debian's packages that there are now
import { writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { formatBytes } from "@kip/base";
import { dockerConfigCredentials, parseReference, pushLayout } from "@kip/oci-image";
import { buildImage } from "./image/build-image.ts";
import { newestPackages } from "./image/debian-packages.ts";
import { layoutSizes } from "./image/image-layout.ts";
import { architectures, imageNames, lockFile, readRecipe, root } from "./image/recipe.ts";
import type { Architecture, ImageName } from "./image/recipe.ts";

const { values } = parseArgs({
  options: {
    image: { type: "string", default: "kip" },
    push: { type: "string" },
    insecure: { type: "boolean", default: false },
    architecture: { type: "string", multiple: true, default: [...architectures] },
    output: { type: "string" },
    "cache-dir": { type: "string", default: path.join(root, ".cache/image") },
    "update-packages": { type: "boolean", default: false },
  },
});
const cacheDir = path.resolve(values["cache-dir"]);
const suite = "bookworm";

if (values["update-packages"]) await updatePackages();
else await build();

async function build(): Promise<void> {
  const name = imageName(values.image);
  const folder = path.join(root, "dist", name === "kip" ? "image" : `image-${name}`);
  const output = path.resolve(values.output ?? folder);
  const digest = await buildImage({
    name,
    output,
    cacheDir,
    architectures: values.architecture.map(architecture),
    epoch: Number(process.env["SOURCE_DATE_EPOCH"] ?? "0"),
    onProgress: (message) => console.log(message),
  });
  const sizes = [...layoutSizes(output)].map(([name, size]) => `${name} ${formatBytes(size)}`);
  console.log(`Built ${digest} (compressed: ${sizes.join(", ")}) in ${output}`);
  if (values.push !== undefined) await push(output, values.push);
}

async function push(output: string, name: string): Promise<void> {
  const reference = parseReference(name);
  const file = path.join(
    process.env["DOCKER_CONFIG"] ?? path.join(homedir(), ".docker"),
    "config.json",
  );
  const host = reference.registry;
  const endpoint = values.insecure ? { endpoint: `http://${host}` } : {};
  const credentials = dockerConfigCredentials(file, { path: process.env["PATH"] });
  const { digest } = await pushLayout(output, reference, {
    registries: [{ host, ...endpoint, credentials }],
  });
  console.log(`Pushed ${name.replace(/@.*$/, "")}@${digest}`);
}

async function updatePackages(): Promise<void> {
  const names = readRecipe().debian;
  const snapshot = `${new Date().toISOString().slice(0, 10).replaceAll("-", "")}T000000Z`;
  const [amd64, arm64] = await Promise.all(
    architectures.map(async (architecture) =>
      newestPackages(names, suite, { cacheDir, architecture }),
    ),
  );
  const lock = { suite, snapshot, amd64, arm64 };
  writeFileSync(lockFile, `${JSON.stringify(lock, undefined, 2)}\n`);
}

function imageName(name: string): ImageName {
  const found = imageNames.find((each) => each === name);
  if (found === undefined) throw new Error(`--image is ${imageNames.join(" or ")}`);
  return found;
}

function architecture(name: string): Architecture {
  const found = architectures.find((each) => each === name);
  if (found === undefined) throw new Error(`--architecture is ${architectures.join(" or ")}`);
  return found;
}
