import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { access, mkdir, readFile, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import path from "node:path";
import type { Readable } from "node:stream";
import { acquireFileLock, runCommand } from "@kip/base";

const requirements = path.join(import.meta.dirname, "moto-requirements.txt");

/** A moto server on loopback. */
export interface MotoServer extends AsyncDisposable {
  readonly url: string;
}

/** Why moto cannot run on this machine. Undefined if it can. */
export async function whyNoMoto(): Promise<string | undefined> {
  try {
    await runCommand("python3", ["-c", "import venv, ensurepip"]);
    return undefined;
  } catch {
    return "moto needs python3 with its venv module (Debian: python3-venv)";
  }
}

/** Options of {@link startMoto}. */
export interface MotoOptions {
  /** Absolute path of a folder for moto's own Python. */
  readonly cacheDir: string;
  /** Environment variables in addition to moto's. @default none */
  readonly environment?: NodeJS.ProcessEnv | undefined;
}

/**
 * Starts moto. Installs it first if the folder does not have this version yet.
 *
 * @throws {CommandError} `COMMAND_FAILED` if it cannot be installed; Error with its last output if it does not start
 */
export async function startMoto({ cacheDir, environment }: MotoOptions): Promise<MotoServer> {
  const folder = await installMoto(cacheDir);
  const child = spawn(
    path.join(folder, "bin/python"),
    ["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
    {
      stdio: ["ignore", "ignore", "pipe"],
      env: {
        ...environment,
        MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION: "true",
        // moto searches all of its images for each instance.
        MOTO_EC2_LOAD_DEFAULT_AMIS: "false",
      },
    },
  );
  return {
    url: await addressOf(child),
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL"); // it stores nothing
      await once(child, "exit");
    },
  };
}

/** moto prints its address when it listens. Later output is read and dropped. */
async function addressOf(child: ChildProcessByStdio<null, null, Readable>): Promise<string> {
  let said = "";
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", () => reject(new Error(`Cannot start moto: ${said}`)));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-4000);
      const address = /Running on (http:\/\/[\d.]+:\d+)/.exec(said)?.[1];
      if (address !== undefined) resolve(address);
    });
  });
}

/**
 * Installs moto in a folder, unless it is already there.
 *
 * @param onInstall called before an installation: pip takes half a minute, and uses its settings and proxies from the
 * environment
 * @returns the folder of moto's own Python
 */
export async function installMoto(
  cacheDir: string,
  onInstall: () => void = () => {},
): Promise<string> {
  const wanted = await readFile(requirements);
  const version = createHash("sha256").update(wanted).digest("hex").slice(0, 12);
  const folder = path.join(cacheDir, `moto-${version}`);
  const complete = path.join(folder, "complete");
  await mkdir(path.dirname(folder), { recursive: true });
  await using _lock = await acquireFileLock(`${folder}.lock`);
  if (await exists(complete)) return folder;
  onInstall();
  await runCommand("python3", ["-m", "venv", "--clear", folder]);
  const pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "-r", requirements];
  await runCommand(path.join(folder, "bin/python"), pip);
  await writeFile(complete, "");
  return folder;
}

async function exists(file: string): Promise<boolean> {
  return await access(file).then(
    () => true,
    () => false,
  );
}
