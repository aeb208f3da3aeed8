import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { isSystemError } from "@kip/base";
import { writeWholeFile } from "./write-whole-file.ts";

/** A database of accounts: passwd(5), shadow(5), group(5) or gshadow(5), a line of fields for each entry. */
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

  /** Reads `/etc/<name>`; undefined if there is no such file. @throws errors of the file system */
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

  /** Numbers in the third field. */
  ids(): ReadonlySet<number> {
    return new Set(this.#entries.map(([, , id]) => Number(id)));
  }

  add(fields: readonly string[]): void {
    this.#entries.push([...fields]);
    this.#isChanged = true;
  }

  /** Sets one field of an entry, from 0. Nothing happens without such an entry. */
  set(name: string, field: number, value: string): void {
    const entry = this.#entries.find(([each]) => each === name);
    if (!entry || entry[field] === value) return;
    entry[field] = value;
    this.#isChanged = true;
  }

  /** Adds a name to the members of a group, the field of this number. */
  addMember(group: string, field: number, member: string): void {
    const members = (this.find(group)?.[field] ?? "").split(",").filter((name) => name !== "");
    if (!members.includes(member)) this.set(group, field, [...members, member].join(","));
  }

  /** Replaces the file, with its mode and owner, if anything has changed. @throws errors of the file system */
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
