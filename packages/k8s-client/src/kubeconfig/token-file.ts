import { readFile } from "node:fs/promises";
import { errorText, type Clock } from "@kip/base";
import { K8sError } from "../errors.ts";

/**
 * How long a token is used before the file is read again, milliseconds. The kubelet replaces tokens well before they expire.
 */
const maxAgeMs = 60_000;

/** A bearer token in a file that is replaced regularly. */
export class TokenFile {
  readonly #path: string;
  readonly #clock: Clock;
  #token = "";
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  /**
   * The file's token, read again after a minute. While the file is empty or unreadable, the last token stays in use, as in
   * client-go.
   *
   * @throws {K8sError} code `K8S_CREDENTIALS_FAILED` if there is no token yet
   */
  async read(): Promise<string> {
    if (this.#clock.monotonic() - this.#readAt <= maxAgeMs) return this.#token;
    try {
      const token = (await readFile(this.#path, "utf8")).trim();
      if (token === "") throw new Error("it is empty");
      this.#token = token;
      this.#readAt = this.#clock.monotonic();
    } catch (cause) {
      if (this.#token === "")
        throw new K8sError(
          "K8S_CREDENTIALS_FAILED",
          `Cannot read the token file "${this.#path}": ${errorText(cause)}`,
          { cause, retryable: true },
        );
    }
    return this.#token;
  }

  /** Makes the next call read the file. */
  forget(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }
}
