/** What becomes of one call, instead of what moto would answer. */
export interface Ec2Fault {
  /** An action of EC2. @default any */
  readonly action?: string | undefined;
  /** Code of EC2's answer; `lost`: it is done, and its answer is lost with the connection. */
  readonly code: string;
  readonly message?: string | undefined;
  /** HTTP status. @default 400 */
  readonly status?: number | undefined;
  /** How many calls it hits. @default 1 */
  readonly calls?: number | undefined;
}

/** Faults of an EC2 API, in the order in which they were added. */
export class Ec2Faults {
  #rules: { readonly fault: Ec2Fault; left: number }[] = [];
  /** Asked for each call that no rule hits. */
  random: (action: string) => Ec2Fault | undefined = () => undefined;

  add(...faults: readonly Ec2Fault[]): void {
    this.#rules.push(...faults.map((fault) => ({ fault, left: fault.calls ?? 1 })));
  }

  clear(): void {
    this.#rules = [];
    this.random = () => undefined;
  }

  /** The fault of a call, which is used up by it. */
  take(action: string): Ec2Fault | undefined {
    const rule = this.#rules.find(
      ({ fault, left }) => left > 0 && (fault.action ?? action) === action,
    );
    if (!rule) return this.random(action);
    rule.left -= 1;
    return rule.fault;
  }
}
