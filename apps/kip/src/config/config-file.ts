import type { Logger } from "@kip/base";
import { changedKeys, type ChangedKey, type ProviderConfig } from "@kip/kip";
import { noteText } from "./placed-notes.ts";
import { configError, readConfigFiles } from "./read-provider-config.ts";

/** The content of a valid `provider.yaml`. */
export interface UsableConfig {
  readonly config: ProviderConfig;
  /** The parsed document, to compare it with a later one. */
  readonly content: unknown;
}

/** A `provider.yaml` that may change while kip runs. While its content is not valid, the last valid content stays in force. */
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

  /** The last valid content. */
  get usable(): UsableConfig {
    return this.#usable;
  }

  /** The files that the configuration was read from: this file, and those that it names. */
  get paths(): readonly string[] {
    return [this.path, ...this.#files];
  }

  /** Reads the file again. If its content is not valid, logs the reason. Never throws. */
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
   * Reads the file when kip's turn to run the node begins, which may be long after the last read. Keys that only take effect
   * when the process starts keep their values, and a change of them is logged. Never throws.
   */
  async readForTurn(): Promise<UsableConfig> {
    const before = this.#usable.content;
    const usable = await this.read();
    warnOfRestart(changedKeys(before, usable.content), this.#logger);
    return usable;
  }
}

/** Logs the changed keys that only take effect after a restart, if there are any. */
export function warnOfRestart(changed: readonly ChangedKey[], logger: Logger): void {
  const keys = changed.filter(({ reload }) => reload === "restart").map(({ path }) => path);
  if (keys.length > 0)
    logger.warn("Changed settings take effect when kip is started again", { keys });
}
