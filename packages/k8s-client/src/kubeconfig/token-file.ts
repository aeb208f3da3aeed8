import { readFile } from "node:fs/promises";
import { errorText, type Clock } from "@kip/base";
import { K8sError } from "../errors.ts";

/** How long a token that was read is used, milliseconds: the kubelet replaces it well before it ends. */
const maxAgeMs = 60_000;

/** A bearer token in a file that is replaced from time to time. */
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
   * The token of the file, read again when it is older than a minute. While the file is empty or cannot be read, the last
   * token stays in use, as in client-go.
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

  /** Reads the file at the next call. */
  forget(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }
}
