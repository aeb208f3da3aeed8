import { watch } from "node:fs";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { acquireFileLock, decode, isSystemError } from "@kip/base";
import { decodeFaultRules, type FaultRuleStore } from "@kip/cloud/faults";

const notice = decode.object({
  instance: decode.string,
  /** Tells the machine from a later one of the same ID. */
  launchedAt: decode.string,
  /** RFC 3339. */
  endsAt: decode.string,
});

const document = decode.object({ rules: decodeFaultRules, notices: decode.list(notice) });

/** The faults that are in force. */
export type FaultState = decode.Decoded<typeof document>;
/** A machine that was given notice, and when it ends. */
export type MachineNotice = decode.Decoded<typeof notice>;

const fileName = "faults.json";
const nothing: FaultState = { rules: [], notices: [] };

/**
 * `faults.json` in the state folder: what is to go wrong, for all processes that use the folder. It is there only
 * while there is something in it.
 */
export class FaultsFile {
  readonly #stateDir: string;

  constructor(stateDir: string) {
    this.#stateDir = stateDir;
  }

  /** The rules alone, as the port's own part takes them. */
  get rules(): FaultRuleStore {
    return {
      read: async () => (await this.read()).rules,
      update: async (change) =>
        await this.update((state) => ({ ...state, rules: change(state.rules) })),
    };
  }

  async read(): Promise<FaultState> {
    const file = path.join(this.#stateDir, fileName);
    try {
      return document(JSON.parse(await readFile(file, "utf8")), file);
    } catch (error) {
      if (isSystemError(error, "ENOENT")) return nothing;
      throw error;
    }
  }

  /** Changes it, alone among all processes. */
  async update(change: (state: FaultState) => FaultState): Promise<void> {
    const locks = path.join(this.#stateDir, "locks");
    await mkdir(locks, { recursive: true, mode: 0o700 });
    await using _lock = await acquireFileLock(path.join(locks, "faults"));
    const before = await this.read();
    const after = change(before);
    if (after === before) return;
    const file = path.join(this.#stateDir, fileName);
    if (after.rules.length === 0 && after.notices.length === 0) {
      await rm(file, { force: true });
      return;
    }
    await writeFile(`${file}.new`, JSON.stringify(after, undefined, 2), { mode: 0o600 });
    await rename(`${file}.new`, file);
  }

  /** Calls back after each change, by any process; returns what ends it. */
  watch(callback: () => void): () => void {
    // The folder, since each change is a new file.
    const watcher = watch(this.#stateDir, { persistent: false }, (_type, name) => {
      if (name === fileName) callback();
    });
    watcher.on("error", () => {}); // the folder is gone, and nothing in it changes
    return () => watcher.close();
  }
}
