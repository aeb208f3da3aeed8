import type { LogFields, Logger } from "@kip/base";

/** What it means for machines that there is no template. */
export const bootsInstead = "Machines boot instead, which takes longer. See docs/local-cloud.md";
const another = `Nothing needs to be done: another one is made. ${bootsInstead}`;
const later = `It is tried again later, as the computer may have been busy. ${bootsInstead}`;
const afterRestart = `It is tried again when kip is started again. ${bootsInstead}`;

/** The warnings about templates, each once: without a template machines start all the same. */
export class TemplateNotices {
  readonly #logger: Logger;
  readonly #said = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** A template is taken out of use. */
  setAside(key: string, reason: string, fields: LogFields): void {
    this.#once(key, key, "A machine template is not used", { ...fields, reason, remedy: another });
  }

  /** There is none for a machine, but one that differs in these facts only. */
  missed(key: string, changed: readonly string[]): void {
    const reason = `it was made with another ${changed.join(", ")}`;
    this.#once(`${key} miss`, key, "A machine template is not used", { reason, remedy: another });
  }

  /** There is too little room now. It is tried again with the next machine. */
  noRoom(key: string, reason: string): void {
    const fields = { reason, remedy: bootsInstead };
    this.#once(`${key} room`, key, "No machine template is made", fields);
  }

  /** A build has failed; one that took too long is tried again. */
  failed(
    key: string,
    reason: string,
    { isLate, console }: { readonly isLate: boolean; readonly console: string | undefined },
  ): void {
    const all = { console, reason, remedy: isLate ? later : afterRestart };
    this.#once(key, key, "No machine template is made", all);
  }

  /** Copies of it did not start so often that no other is made. */
  givenUp(key: string, failures: number): void {
    const reason = `copies of it did not start ${failures} times`;
    const fields = { reason, remedy: afterRestart };
    this.#once(`${key} given up`, key, "No machine template is made", fields);
  }

  /** It takes more than all templates may. */
  tooBig(key: string): void {
    this.#once(key, key, "A machine template is not kept", {
      reason: "it is bigger than all templates together may be",
      remedy: `Raise the limit (templateBytes). ${bootsInstead}`,
    });
  }

  #once(fact: string, template: string, message: string, fields: LogFields): void {
    if (this.#said.has(fact)) return;
    this.#said.add(fact);
    this.#logger.warn(message, { template, ...fields });
  }
}
