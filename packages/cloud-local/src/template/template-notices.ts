import type { LogFields, Logger } from "@kip/base";

/** The effect of a missing template on machines. */
export const bootsInstead = "Machines boot instead, which takes longer. See docs/local-cloud.md";
const another = `Nothing needs to be done: another one is made. ${bootsInstead}`;
const later = `It is tried again later, as the computer may have been busy. ${bootsInstead}`;
const afterRestart = `It is tried again when kip is started again. ${bootsInstead}`;

/** Logs warnings about templates, each once. Without a template, machines still start. */
export class TemplateNotices {
  readonly #logger: Logger;
  readonly #logged = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** A template was taken out of use. */
  setAside(key: string, reason: string, fields: LogFields): void {
    this.#once(key, key, "A machine template is not used", { ...fields, reason, remedy: another });
  }

  /** There is no matching template, but one that only differs in these facts. */
  missed(key: string, changed: readonly string[]): void {
    const reason = `it was made with another ${changed.join(", ")}`;
    this.#once(`${key} miss`, key, "A machine template is not used", { reason, remedy: another });
  }

  /** There is not enough free space. Retried with the next machine. */
  noRoom(key: string, reason: string): void {
    const fields = { reason, remedy: bootsInstead };
    this.#once(`${key} room`, key, "No machine template is made", fields);
  }

  /** A build failed. If it took too long, it is retried. */
  failed(
    key: string,
    reason: string,
    { isLate, console }: { readonly isLate: boolean; readonly console: string | undefined },
  ): void {
    const all = { console, reason, remedy: isLate ? later : afterRestart };
    this.#once(key, key, "No machine template is made", all);
  }

  /** Its copies failed to start so often that no other template is built. */
  givenUp(key: string, failures: number): void {
    const reason = `copies of it did not start ${failures} times`;
    const fields = { reason, remedy: afterRestart };
    this.#once(`${key} given up`, key, "No machine template is made", fields);
  }

  /** It exceeds the limit for all templates. */
  tooBig(key: string): void {
    this.#once(key, key, "A machine template is not kept", {
      reason: "it is bigger than all templates together may be",
      remedy: `Raise the limit (templateBytes). ${bootsInstead}`,
    });
  }

  #once(fact: string, template: string, message: string, fields: LogFields): void {
    if (this.#logged.has(fact)) return;
    this.#logged.add(fact);
    this.#logger.warn(message, { template, ...fields });
  }
}
