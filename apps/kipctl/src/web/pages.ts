import type { ServerResponse } from "node:http";

/**
 * The open pages. Each one is sent the whole state. A page that has not read its last message is skipped until it has, and then
 * gets the newest state at once. So at most one message is waiting for a page.
 */
export class Pages {
  readonly #pages = new Set<ServerResponse>();
  /** Pages that have not read their last message, while there is a newer state. */
  readonly #late = new WeakSet<ServerResponse>();
  readonly #message: () => string;

  /** @param message returns the newest state */
  constructor(message: () => string) {
    this.#message = message;
  }

  /** Sends the state to a page now, and after each change until the page is closed. */
  add(page: ServerResponse): void {
    this.#pages.add(page);
    page.on("close", () => this.#pages.delete(page));
    page.write(this.#message());
  }

  /** Sends the newest state to all pages that have read their last message. */
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
