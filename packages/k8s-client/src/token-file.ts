import { readFile } from "node:fs/promises";

/** How long a token that was read is used, milliseconds: the kubelet replaces it well before it ends. */
const maxAgeMs = 60_000;

/** A bearer token in a file that somebody renews. */
export class TokenFile {
  readonly #path: string;
  #token = "";
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(path: string) {
    this.#path = path;
  }

  async read(): Promise<string> {
    if (performance.now() - this.#readAt > maxAgeMs) {
      this.#token = (await readFile(this.#path, "utf8")).trim();
      this.#readAt = performance.now();
    }
    return this.#token;
  }

  forget(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }
}
