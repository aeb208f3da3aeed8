// An older version of this repository in a folder, to run beside this one.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { globSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";

const root = path.join(import.meta.dirname, "../../..");
const dayS = 86_400;

/**
 * The version to upgrade from: the given one, or the newest tag before this commit, or the newest commit that is at least a day
 * older than this one. Undefined without a git history.
 */
export function olderVersion(given = ""): string | undefined {
  if (given !== "") return git("rev-parse", "--verify", `${given}^{commit}`);
  const tag = git("describe", "--tags", "--abbrev=0", "HEAD~1");
  if (tag !== undefined) return git("rev-parse", "--verify", `${tag}^{commit}`);
  const time = Number(git("log", "-1", "--format=%ct"));
  const commit = Number.isNaN(time) ? "" : git("rev-list", "-1", `--before=${time - dayS}`, "HEAD");
  return commit === "" ? undefined : commit;
}

/** The output of git. Undefined if it fails. */
function git(...args: readonly string[]): string | undefined {
  const { status, stdout } = spawnSync("git", args, { cwd: root, encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}

/** Unpacks a version into a folder. It uses the npm packages of this version. */
export function unpackVersion(commit: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  const script = 'git archive --format=tar "$1" | tar -x -C "$2"';
  const { status, stderr } = spawnSync("sh", ["-c", script, "sh", commit, folder], {
    cwd: root,
    encoding: "utf8",
  });
  assert.equal(status, 0, stderr);
  const modules = path.join(folder, "node_modules");
  mkdirSync(path.join(modules, "@kip"), { recursive: true });
  for (const name of readdirSync(path.join(root, "node_modules")))
    if (name !== "@kip")
      symlinkSync(path.join(root, "node_modules", name), path.join(modules, name));
  for (const file of globSync("{apps,packages}/*/package.json", { cwd: folder })) {
    const { name } = JSON.parse(readFileSync(path.join(folder, file), "utf8")) as { name: string }; // npm's format
    symlinkSync(path.join(folder, path.dirname(file)), path.join(modules, name));
  }
}
