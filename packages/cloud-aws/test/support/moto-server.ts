import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdir, readFile, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import os from "node:os";
import path from "node:path";
import { setTimeout } from "node:timers/promises";
import { acquireFileLock, runCommand } from "@kip/base";
import { freePort } from "@kip/testing";

const requirements = path.join(import.meta.dirname, "moto-requirements.txt");

/** A server of moto on loopback. */
export interface MotoServer extends AsyncDisposable {
  readonly url: string;
}

/** Why moto cannot run on this machine; undefined: it can. */
export async function whyNoMoto(): Promise<string | undefined> {
  try {
    await runCommand("python3", ["-c", "import venv, ensurepip"]);
    return undefined;
  } catch {
    return "moto needs python3 with its venv module (Debian: python3-venv)";
  }
}

/** Starts moto, which is installed first if this machine does not have this version of it yet. */
export async function startMoto(): Promise<MotoServer> {
  const folder = await installedMoto();
  const port = await freePort();
  const child = spawn(
    path.join(folder, "bin/python"),
    ["-m", "moto.server", "-H", "127.0.0.1", "-p", String(port)],
    {
      stdio: ["ignore", "ignore", "pipe"],
      env: {
        PATH: process.env["PATH"],
        MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION: "true",
        // It looks through all of its images for each instance.
        MOTO_EC2_LOAD_DEFAULT_AMIS: "false",
      },
    },
  );
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = (errors + text).slice(-4000);
  });
  const url = `http://127.0.0.1:${port}`;
  while (!(await isUp(url))) {
    if (child.exitCode !== null) throw new Error(`Cannot start moto: ${errors}`);
    await setTimeout(50);
  }
  return {
    url,
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL"); // keeps nothing
      await once(child, "exit");
    },
  };
}

async function isUp(url: string): Promise<boolean> {
  return await fetch(`${url}/moto-api/`).then(
    async (answer) => {
      await answer.body?.cancel();
      return answer.ok;
    },
    () => false,
  );
}

/** The folder of moto's own Python, in the caller's cache; pip takes its settings and proxies from the environment. */
async function installedMoto(): Promise<string> {
  const wanted = await readFile(requirements);
  const version = createHash("sha256").update(wanted).digest("hex").slice(0, 12);
  const cache = process.env["XDG_CACHE_HOME"] ?? path.join(os.homedir(), ".cache");
  const folder = path.join(cache, "kip", `moto-${version}`);
  const complete = path.join(folder, "complete");
  await mkdir(path.dirname(folder), { recursive: true });
  await using _lock = await acquireFileLock(`${folder}.lock`);
  if (await exists(complete)) return folder;
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
