import type { ServerResponse } from "node:http";

/**
 * Open pages, each of which is sent the whole state. One that does not read what it was sent is left out until it has: it then gets
 * the newest state at once, and never more than one message waits for it.
 */
export class Pages {
  readonly #pages = new Set<ServerResponse>();
  /** Those that have not read the last message, while there is a newer one. */
  readonly #late = new WeakSet<ServerResponse>();
  readonly #message: () => string;

  /** @param message makes the newest state */
  constructor(message: () => string) {
    this.#message = message;
  }

  /** Sends the state to a page, now and from now on, until it is closed. */
  add(page: ServerResponse): void {
    this.#pages.add(page);
    page.on("close", () => this.#pages.delete(page));
    page.write(this.#message());
  }

  /** Sends the newest state to all pages that have read the last one. */
  send(): void {
    if (this.#pages.size === 0) return;
    const message = this.#message();
    for (const page of this.#pages) {
      if (!page.writableNeedDrain) page.write(message);
      else if (!this.#late.has(page)) this.#sendLater(page);
    }
  }

  #sendLater(page: ServerResponse): void {
    this.#late.add(page);
    page.once("drain", () => {
      this.#late.delete(page);
      page.write(this.#message());
    });
  }
}
