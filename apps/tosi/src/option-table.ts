import type { Option } from "@kip/base";

const text = (flag: string, help: string, more: Partial<Option> = {}): Option => ({
  flag,
  type: "string",
  help,
  ...more,
});

/** The original's flags. */
export const originalOptions: readonly Option[] = [
  text("image", "repository[:tag][@digest], with a registry or Docker Hub's"),
  text("url", "deprecated: URL of the registry; the image's name is then taken as it stands"),
  text("username", "user name at the registry", { env: "TOSI_USERNAME" }),
  text("password", "password at the registry", { env: "TOSI_PASSWORD" }),
  text("workdir", "the store", { fallback: "/tmp/tosi" }),
  text("overlaydir", "the store, if not workdir"),
  text("extractto", "copy the image's files to this folder, which must be empty or missing"),
  text("mount", "mount the image at this folder, which must be empty or missing"),
  text("saveconfig", "write the image's configuration to this file as JSON"),
  text("parallel-downloads", "layers at once; negative is 1, 0 is all", { fallback: "4" }),
  {
    flag: "validate-cache",
    type: "boolean",
    help: "compare what is in the store, or for prefetch in the cache, with the registry",
  },
  { flag: "version", type: "boolean", help: "print the version" },
];

/** What every command takes. */
export const commonOptions: readonly Option[] = [
  ...originalOptions,
  text("platform", "os/architecture[/variant], if not this machine's"),
  text("cache", "a shared folder of blobs that is asked before the registry"),
  text("docker-config", "file of docker login, if not ~/.docker/config.json"),
  text("ca", "file of certificates to trust besides the system's"),
  { flag: "insecure", type: "list", help: "registry to speak plain HTTP with, by its host" },
  { flag: "mirror", type: "list", help: "URL to ask before the image's registry" },
  { flag: "devices", type: "boolean", help: "make device nodes of images" },
  { flag: "json", type: "boolean", help: "print JSON lines" },
  { flag: "quiet", type: "boolean", help: "print no progress" },
  text("max-size", "gc: most bytes to keep, for example 10Gi"),
  text("unused-for", "gc: remove what was not used for so long, for example 24h"),
  text("list", "prefetch: file of image names, one a line"),
  {
    flag: "private",
    type: "boolean",
    help: "prefetch: take images that need a log-in too; root on every machine with the cache can read them",
  },
  { flag: "help", type: "boolean", help: "this text" },
];

/** The help text. */
export function helpText(): string {
  const width = Math.max(...commonOptions.map(({ flag }) => flag.length)) + 3;
  const lines = commonOptions.map(({ flag, help }) => `  ${`-${flag}`.padEnd(width)}${help}`);
  return `tosi gets images without a daemon.

  tosi -image NAME [-extractto DIR | -mount DIR]   as the original tosi
  tosi pull NAME                  get an image into the store
  tosi unpack NAME DIR            get it, and copy its files to a folder
  tosi inspect NAME               what the store knows of an image
  tosi verify NAME                compare the store with the registry, and mend it
  tosi gc [-max-size N] [-unused-for T]   remove what is not used
  tosi prefetch -cache DIR NAME…  put images into a shared folder of blobs

${lines.join("\n")}

Exit codes: 0 done · 1 failed · 2 wrong command line · 3 no such image · 4 no access · 5 registry out of
reach, try again · 6 image broken or unsafe · 7 disk full, mount or copy failed
`;
}
