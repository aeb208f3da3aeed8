import { readFileSync } from "node:fs";
import path from "node:path";
import { writeWholeFile } from "./write-whole-file.ts";

/** Where it is kept. */
export interface RecordOptions {
  /** Put before every path. @default "/" */
  readonly root?: string | undefined;
  /** Below the root. */
  readonly workspace: string;
}

/** Whether the user data of this instance has been applied on this disk, before a restart or now. Never throws. */
export function isApplied(instanceId: string, options: RecordOptions): boolean {
  try {
    const file = path.join(options.root ?? "/", recordPath(options));
    return readFileSync(file, "utf8") === `${instanceId}\n`;
  } catch {
    return false;
  }
}

/** Notes that it has been; what was noted of another instance, which this disk is a copy of, is replaced. */
export function noteApplied(instanceId: string, options: RecordOptions): void {
  const content = Buffer.from(`${instanceId}\n`);
  writeWholeFile({ path: recordPath(options), content, mode: 0o644 }, options.root ?? "/");
}

function recordPath({ workspace }: RecordOptions): string {
  return path.join(workspace, "instance-id");
}
