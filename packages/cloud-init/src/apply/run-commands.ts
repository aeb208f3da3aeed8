import { closeSync, openSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { CommandError, errorText, isSystemError, makeFolderSync, runCommand } from "@kip/base";
import type { CloudConfig, CloudScript } from "../config/cloud-config.ts";
import { writeWholeFile } from "./write-whole-file.ts";

/** Folders for commands. */
interface RunOptions {
  /** Prefix of the paths of files. */
  readonly root: string;
  /** Folder for programs to run, below the root. */
  readonly workspace: string;
}

/** What failed, and why. */
interface Failure {
  readonly what: string;
  readonly reason: string;
}

/** The output of commands goes here, as in Canonical's cloud-init. */
export const outputLog = "/var/log/cloud-init-output.log";

/**
 * Runs all commands in one shell, as the original does, so variables and the working folder carry over. The next commands also
 * run if one fails or is not valid shell syntax, but not if one exits the shell.
 */
export async function runCommands(
  commands: CloudConfig["runCommands"],
  options: RunOptions,
): Promise<readonly Failure[]> {
  if (commands.length === 0) return [];
  const { root, workspace } = options;
  const script = path.join(workspace, "runcmd.sh");
  const statuses = path.join(root, workspace, "runcmd.status");
  rmSync(statuses, { force: true });
  const lines = commands.flatMap((command, index) => [
    // With "command", the shell continues after invalid syntax.
    `command eval ${shellQuoted(commandText(command))}`,
    `echo "${index} $?" >> ${shellQuoted(statuses)}`,
  ]);
  const failure = await runFile(script, Buffer.from(`#!/bin/sh\n${lines.join("\n")}\n`), options);
  const ended = readStatuses(statuses);
  return commands.flatMap((command, index) => {
    const what = `run command "${textStart(commandText(command))}"`;
    const status = ended.get(index);
    if (status === "0") return [];
    if (status !== undefined) return [{ what, reason: `exit code ${status}` }];
    const isLast = index === ended.size;
    return [{ what, reason: isLast ? (failure ?? "it ended the shell") : "the shell has ended" }];
  });
}

/** Runs the user data bodies that begin with "#!", one after the other. */
export async function runScripts(
  scripts: readonly CloudScript[],
  options: RunOptions,
): Promise<readonly Failure[]> {
  const failures: Failure[] = [];
  for (const [index, script] of scripts.entries()) {
    const name = `part-${String(index + 1).padStart(3, "0")}`;
    const reason = await runFile(path.join(options.workspace, "scripts", name), script, options);
    if (reason !== undefined) failures.push({ what: `run the script "${name}"`, reason });
  }
  return failures;
}

/** @returns why it failed, or undefined */
async function runFile(
  place: string,
  content: Uint8Array,
  { root }: RunOptions,
): Promise<string | undefined> {
  const file = path.join(root, place);
  const log = path.join(root, outputLog);
  try {
    // Both files may contain secrets.
    writeWholeFile({ path: place, content, mode: 0o700 }, root);
    makeFolderSync(path.dirname(log), 0o755, { recursive: true });
    closeSync(openSync(log, "a", 0o640));
    // Do not use a pipe to this process: processes that a command leaves running would keep it open, and the machine's start
    // would wait for that.
    await runCommand("/bin/sh", ["-c", 'exec "$0" >> "$1" 2>&1 < /dev/null', file, log], {
      cwd: "/",
    });
    return undefined;
  } catch (error) {
    if (!CommandError.is(error)) return errorText(error);
    const code = error.exitCode === undefined ? errorText(error) : `exit code ${error.exitCode}`;
    return `${code}; its output is in ${outputLog}`;
  }
}

function commandText(command: string | readonly string[]): string {
  return typeof command === "string" ? command : command.map(shellQuoted).join(" ");
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function textStart(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

function readStatuses(file: string): ReadonlyMap<number, string> {
  const lines = readOrNothing(file).toString().split("\n");
  return new Map(
    lines.flatMap((line) => {
      const [index, status] = line.split(" ");
      return status === undefined ? [] : [[Number(index), status] as const];
    }),
  );
}

function readOrNothing(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return Buffer.alloc(0);
    throw error;
  }
}
