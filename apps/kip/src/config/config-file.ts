import type { Logger } from "@kip/base";
import { changedKeys, type ChangedKey, type ProviderConfig } from "@kip/kip";
import { noteText } from "./placed-notes.ts";
import { configError, readConfigFiles } from "./read-provider-config.ts";

/** The content of a `provider.yaml` that kip can use. */
export interface UsableConfig {
  readonly config: ProviderConfig;
  /** The parsed document, for comparisons with a later one. */
  readonly content: unknown;
}

/** A `provider.yaml` that may change while kip runs. What it had last that kip can use is kept while it cannot be used. */
export class ConfigFile {
  readonly path: string;
  readonly #logger: Logger;
  #usable: UsableConfig;
  #files: readonly string[] = [];

  private constructor(path: string, usable: UsableConfig, logger: Logger) {
    this.path = path;
    this.#usable = usable;
    this.#logger = logger;
  }

  /** @throws {KipError} `CONFIG_INVALID` if the file cannot be read or has problems */
  static async open(path: string, logger: Logger): Promise<ConfigFile> {
    const { config, content, problems, notices, files } = await readConfigFiles(path);
    if (!config) throw configError(path, problems);
    for (const note of notices)
      logger.warn("Read a setting with a remark", { note: noteText(note) });
    const file = new ConfigFile(path, { config, content }, logger);
    file.#files = files;
    return file;
  }

  /** What the file had when it could last be used. */
  get usable(): UsableConfig {
    return this.#usable;
  }

  /** The files that it was read from: itself, and those that it names. */
  get paths(): readonly string[] {
    return [this.path, ...this.#files];
  }

  /** Reads the file again; logs why if it cannot be used now. Never throws. */
  async read(): Promise<UsableConfig> {
    const found = await readConfigFiles(this.path).catch((error: unknown) => {
      this.#logger.error("Could not read the configuration; kept the one in force", { err: error });
    });
    if (!found) return this.#usable;
    const { config, content, problems, notices } = found;
    this.#files = found.files;
    if (!config) {
      this.#logger.error("Kept the configuration in force: the changed file has problems", {
        file: this.path,
        problems: problems.map((note) => noteText(note)),
      });
      return this.#usable;
    }
    if (changedKeys(this.#usable.content, content).length > 0)
      for (const note of notices)
        this.#logger.warn("Read a setting with a remark", { note: noteText(note) });
    this.#usable = { config, content };
    return this.#usable;
  }

  /**
   * Reads the file for a turn of kip, which may begin long after the last look at it. Keys that the process alone uses stay as
   * they were when it was started; it is logged if they have changed. Never throws.
   */
  async readForTurn(): Promise<UsableConfig> {
    const before = this.#usable.content;
    const usable = await this.read();
    warnOfRestart(changedKeys(before, usable.content), this.#logger);
    return usable;
  }
}

/** Logs the changed keys that take effect when the process is started again, if there are any. */
export function warnOfRestart(changed: readonly ChangedKey[], logger: Logger): void {
  const keys = changed.filter(({ reload }) => reload === "restart").map(({ path }) => path);
  if (keys.length > 0)
    logger.warn("Changed settings take effect when kip is started again", { keys });
}
