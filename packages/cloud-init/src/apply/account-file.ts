import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { isSystemError } from "@kip/base";
import { writeWholeFile } from "./write-whole-file.ts";

/** One of the files passwd(5), shadow(5), group(5) and gshadow(5), which have a line of fields for each entry. */
export class AccountFile {
  readonly #path: string;
  readonly #root: string;
  readonly #entries: string[][];
  #isChanged = false;

  private constructor(place: string, root: string, entries: string[][]) {
    this.#path = place;
    this.#root = root;
    this.#entries = entries;
  }

  /** Reads `/etc/<name>`. Undefined if it does not exist. @throws errors of the file system */
  static open(
    name: "passwd" | "shadow" | "group" | "gshadow",
    root: string,
  ): AccountFile | undefined {
    const place = `/etc/${name}`;
    try {
      const lines = readFileSync(path.join(root, place), "utf8").split("\n");
      const entries = lines.filter((line) => line !== "").map((line) => line.split(":"));
      return new AccountFile(place, root, entries);
    } catch (error) {
      if (isSystemError(error, "ENOENT")) return undefined;
      throw error;
    }
  }

  find(name: string): readonly string[] | undefined {
    return this.#entries.find(([entry]) => entry === name);
  }

  /** The IDs in the third field. */
  ids(): ReadonlySet<number> {
    return new Set(this.#entries.map(([, , id]) => Number(id)));
  }

  add(fields: readonly string[]): void {
    this.#entries.push([...fields]);
    this.#isChanged = true;
  }

  /** Sets one field of an entry, counted from 0. Does nothing if there is no such entry. */
  set(name: string, field: number, value: string): void {
    const entry = this.#entries.find(([each]) => each === name);
    if (!entry || entry[field] === value) return;
    entry[field] = value;
    this.#isChanged = true;
  }

  /** Adds a member to a group. `field` is the index of the member list. */
  addMember(group: string, field: number, member: string): void {
    const members = (this.find(group)?.[field] ?? "").split(",").filter((name) => name !== "");
    if (!members.includes(member)) this.set(group, field, [...members, member].join(","));
  }

  /** Replaces the file if anything has changed, and keeps its mode and owner. @throws errors of the file system */
  save(): void {
    if (!this.#isChanged) return;
    const { mode, uid, gid } = statSync(path.join(this.#root, this.#path));
    const content = Buffer.from(this.#entries.map((entry) => `${entry.join(":")}\n`).join(""));
    writeWholeFile(
      { path: this.#path, content, mode: mode & 0o7777, owner: `${uid}:${gid}` },
      this.#root,
    );
  }
}
