import type { Option } from "@kip/base";

const text = (flag: string, help: string, more: Partial<Option> = {}): Option => ({
  flag,
  type: "string",
  help,
  ...more,
});

/** The flags of the original tosi. */
export const originalOptions: readonly Option[] = [
  text(
    "image",
    "image name: [registry/]repository[:tag][@digest]; without a registry of Docker Hub",
  ),
  text("url", "deprecated: URL of the registry; the image name is then used unchanged"),
  text("username", "user name for the registry", { env: "TOSI_USERNAME" }),
  text("password", "password for the registry", { env: "TOSI_PASSWORD" }),
  text("workdir", "folder of the image store", { fallback: "/tmp/tosi" }),
  text("overlaydir", "folder of the image store, in place of -workdir"),
  text("extractto", "copy the image's files to this folder, which must be empty or missing"),
  text("mount", "mount the image at this folder, which must be empty or missing"),
  text("saveconfig", "write the image's configuration to this file as JSON"),
  text("parallel-downloads", "layers that are fetched at once; 0 means all, a negative number 1", {
    fallback: "4",
  }),
  {
    flag: "validate-cache",
    type: "boolean",
    help: "compare the store (prefetch: the cache) with the registry",
  },
  { flag: "version", type: "boolean", help: "print the version" },
];

/** The options of every command. */
export const commonOptions: readonly Option[] = [
  ...originalOptions,
  text("platform", "os/architecture[/variant] of the image; default this machine's"),
  text("cache", "shared folder of blobs that is used before the registry"),
  text("docker-config", "credentials file of docker login; default ~/.docker/config.json"),
  text("ca", "file of certificates to trust in addition to the system's"),
  { flag: "insecure", type: "list", help: "host of a registry that is reached by plain HTTP" },
  {
    flag: "mirror",
    type: "list",
    help: "URL of a mirror that is used before the image's registry",
  },
  { flag: "devices", type: "boolean", help: "create the device nodes of images" },
  { flag: "json", type: "boolean", help: "print results as JSON lines" },
  { flag: "quiet", type: "boolean", help: "do not print progress" },
  text("max-size", "gc: size of the store to keep at most, for example 10Gi"),
  text("unused-for", "gc: remove what was not used for this time, for example 24h"),
  text("list", "prefetch: file of image names, one per line"),
  {
    flag: "private",
    type: "boolean",
    help: "prefetch: also take images that need a log-in; root on every machine with the cache can read them",
  },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** The help text. */
export function helpText(): string {
  const width = Math.max(...commonOptions.map(({ flag }) => flag.length)) + 3;
  const lines = commonOptions.map(
    (option) => `  ${`-${option.flag}`.padEnd(width)}${helpOf(option)}`,
  );
  return `tosi pulls container images without a daemon.

  tosi -image NAME [-extractto DIR | -mount DIR]   works as the original tosi
  tosi pull NAME                  pull an image into the store
  tosi unpack NAME DIR            pull an image, and copy its files to a folder
  tosi inspect NAME               show what the store has of an image
  tosi verify NAME                compare the store with the registry, and repair it
  tosi gc [-max-size N] [-unused-for T]   remove what is not used
  tosi prefetch -cache DIR NAME…  put images into a shared folder of blobs

Example: tosi unpack docker.io/library/alpine:3.20 /tmp/alpine

${lines.join("\n")}

Exit codes: 0 done · 1 failed · 2 wrong command line · 3 no such image · 4 no access · 5 registry out of
reach, try again · 6 image broken or unsafe · 7 disk full, mount or copy failed
`;
}

function helpOf({ type, help, env, fallback }: Option): string {
  const notes = [
    type === "list" ? "repeatable" : [],
    env === undefined ? [] : `env ${String(env)}`,
    fallback === undefined ? [] : `default ${fallback}`,
  ].flat();
  return notes.length === 0 ? help : `${help} (${notes.join(", ")})`;
}
