import { readFileSync } from "node:fs";
import path from "node:path";
import { writeWholeFile } from "./write-whole-file.ts";

/** Where to keep the record. */
export interface RecordOptions {
  /** Prefix of every path. @default "/" */
  readonly root?: string | undefined;
  /** Below the root. */
  readonly workspace: string;
}

/** Whether the user data of this instance was applied on this disk, in this boot or an earlier one. Never throws. */
export function isApplied(instanceId: string, options: RecordOptions): boolean {
  try {
    const file = path.join(options.root ?? "/", recordPath(options));
    return readFileSync(file, "utf8") === `${instanceId}\n`;
  } catch {
    return false;
  }
}

/** Records that the user data was applied. Replaces the record of another instance, of which this disk is a copy. */
export function noteApplied(instanceId: string, options: RecordOptions): void {
  const content = Buffer.from(`${instanceId}\n`);
  writeWholeFile({ path: recordPath(options), content, mode: 0o644 }, options.root ?? "/");
}

function recordPath({ workspace }: RecordOptions): string {
  return path.join(workspace, "instance-id");
}
