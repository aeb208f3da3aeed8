import { runCommand, CommandError } from "@kip/base";
import { hostAptSources } from "./apt-sources.ts";
import { runContained } from "./run-contained.ts";
import { defaultSources, recipe } from "./recipe.ts";
import { CellImageError } from "./errors.ts";

/** Options of {@link runMmdebstrap}. */
interface MmdebstrapOptions {
  /** Folder for the packages. It must not exist yet. */
  readonly root: string;
  readonly arguments: readonly string[];
  readonly signal?: AbortSignal | undefined;
}

/**
 * Fills a folder with Debian packages, from the host's package sources.
 *
 * @throws {CellImageError} `CELL_IMAGE_BUILD_FAILED` with the first error in the output
 */
export async function runMmdebstrap(options: MmdebstrapOptions): Promise<void> {
  const { signal } = options;
  const sources = await hostAptSources("/etc/apt", recipe.suite);
  const proxies = (await aptOptions(signal)).map((line) => `--aptopt=${line}`);
  const fixed = ["--format=directory", "--mode=root", ...proxies];
  const where = [recipe.suite, options.root, ...(sources.length > 0 ? sources : defaultSources)];
  try {
    await runContained("mmdebstrap", [...fixed, ...options.arguments, ...where], {
      signal,
    });
  } catch (cause) {
    if (!CommandError.is(cause, "COMMAND_FAILED")) throw cause;
    throw new CellImageError(
      "CELL_IMAGE_BUILD_FAILED",
      `Cannot install Debian ${recipe.suite}: ${firstComplaint(cause)}`,
      { cause, remedy: 'Check that "apt-get update" works on this machine' },
    );
  }
}

/** The first line that apt, dpkg or mmdebstrap marks as an error. */
function firstComplaint({ stderr }: CommandError): string {
  const line = stderr.split("\n").find((text) => /^(E|dpkg|dpkg-deb): /.test(text));
  return line === undefined ? "mmdebstrap failed" : line.replace(/^E: /, "");
}

/** The host's proxies and certificates for apt. mmdebstrap does not use the host's settings on its own. */
async function aptOptions(signal: AbortSignal | undefined): Promise<readonly string[]> {
  const { stdout } = await runCommand("apt-config", ["dump"], { signal });
  return stdout
    .split("\n")
    .filter((line) => /^Acquire::https?::\S*(Proxy|CaInfo)\S* ".+";$/i.test(line));
}
