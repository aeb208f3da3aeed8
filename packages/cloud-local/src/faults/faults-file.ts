import { watch } from "node:fs";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { acquireFileLock, decode, isSystemError } from "@kip/base";
import { decodeFaultRules, type FaultRuleStore } from "@kip/cloud/faults";

const notice = decode.object({
  instance: decode.string,
  /** Distinguishes the machine from a later one with the same ID. */
  launchedAt: decode.string,
  /** RFC 3339. */
  endsAt: decode.string,
});

const document = decode.object({ rules: decodeFaultRules, notices: decode.list(notice) });

/** The faults in force. */
export type FaultState = decode.Decoded<typeof document>;
/** A machine that got a notice, and when it ends. */
export type MachineNotice = decode.Decoded<typeof notice>;

const fileName = "faults.json";
const noFaults: FaultState = { rules: [], notices: [] };

/**
 * `faults.json` in the state folder: the faults for all processes that use the folder. The file only exists if there are
 * faults.
 */
export class FaultsFile {
  readonly #stateDir: string;

  constructor(stateDir: string) {
    this.#stateDir = stateDir;
  }

  /** The rules, for the part of the faults that the port defines. */
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
      if (isSystemError(error, "ENOENT")) return noFaults;
      throw error;
    }
  }

  /** Changes the faults. At any time only one process does so. */
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

  /** Calls back after each change by any process. Returns a function that stops this. */
  watch(callback: () => void): () => void {
    // Watch the folder, because each change creates a new file.
    const watcher = watch(this.#stateDir, { persistent: false }, (_type, name) => {
      if (name === fileName) callback();
    });
    watcher.on("error", () => {}); // the folder is gone, so there will be no changes
    return () => watcher.close();
  }
}
