/** What happens to a call instead of moto's response. */
export interface Ec2Fault {
  /** EC2 action. @default any */
  readonly action?: string | undefined;
  /** EC2's error code. `lost`: the call takes effect, and the connection closes before the response. */
  readonly code: string;
  readonly message?: string | undefined;
  /** HTTP status. @default 400 */
  readonly status?: number | undefined;
  /** How many calls it affects. @default 1 */
  readonly calls?: number | undefined;
}

/** Faults of an EC2 API, in the order in which they were added. */
export class Ec2Faults {
  #rules: { readonly fault: Ec2Fault; left: number }[] = [];
  /** Called for each call that matches no fault of the list. */
  random: (action: string) => Ec2Fault | undefined = () => undefined;

  add(...faults: readonly Ec2Fault[]): void {
    this.#rules.push(...faults.map((fault) => ({ fault, left: fault.calls ?? 1 })));
  }

  clear(): void {
    this.#rules = [];
    this.random = () => undefined;
  }

  /** Finds the fault for a call and uses it up. */
  take(action: string): Ec2Fault | undefined {
    const rule = this.#rules.find(
      ({ fault, left }) => left > 0 && (fault.action ?? action) === action,
    );
    if (!rule) return this.random(action);
    rule.left -= 1;
    return rule.fault;
  }
}
