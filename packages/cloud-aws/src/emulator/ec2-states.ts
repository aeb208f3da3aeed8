import { childOf, element, itemsOf, setChild, setText, textOf, type XmlElement } from "./xml.ts";

/** How long instances take to change, milliseconds. */
export interface Ec2Delays {
  /** From the launch until the instance runs. */
  readonly pendingMs: number;
  /** From the call that ends it until it has ended. */
  readonly stopMs: number;
  /** How long an instance that was ended on purpose is still shown. */
  readonly forgetMs: number;
  /** How long responses lack a new instance. */
  readonly lagMs: number;
}

/** EC2's reason why an instance ends or has ended. */
export interface StateReason {
  readonly code: string;
  readonly message: string;
}

interface State {
  readonly launchedAt: number;
  readonly tenancy: string;
  asked: boolean;
  reason?: StateReason | undefined;
}

/** States that take time, for moto's instances, which run and end at once. */
export class Ec2States {
  readonly #delays: Ec2Delays;
  readonly #states = new Map<string, State>();

  constructor(delays: Ec2Delays) {
    this.#delays = delays;
  }

  launched(id: string, tenancy: string): void {
    this.#states.set(id, { launchedAt: performance.now(), tenancy, asked: false });
  }

  /** Records that a call has asked to end the instance. False if one already had. */
  ask(id: string): boolean {
    const state = this.#states.get(id);
    if (!state || state.asked) return false;
    state.asked = true;
    return true;
  }

  killed(id: string, reason: StateReason): void {
    const state = this.#states.get(id);
    if (state) Object.assign(state, { asked: true, reason });
  }

  /** Whether EC2 does not show the instance yet. */
  isHidden(id: string): boolean {
    const state = this.#states.get(id);
    return state !== undefined && performance.now() - state.launchedAt < this.#delays.lagMs;
  }

  /** Changes a response of DescribeInstances. */
  apply(answer: XmlElement): void {
    const reservations = childOf(answer, "reservationSet");
    if (!reservations) return;
    for (const reservation of reservations.children) {
      const set = childOf(reservation, "instancesSet");
      const visible = itemsOf(reservation, "instancesSet").filter(
        (item) => !this.isHidden(textOf(item, "instanceId")),
      );
      set?.children.splice(0, set.children.length, ...visible);
      for (const item of visible) this.applyTo(item);
    }
    const shown = reservations.children.filter((each) => itemsOf(each, "instancesSet").length > 0);
    reservations.children.splice(0, reservations.children.length, ...shown);
  }

  /** Changes one instance of a response. */
  applyTo(item: XmlElement): void {
    const state = this.#states.get(textOf(item, "instanceId"));
    if (!state) return;
    const placement = childOf(item, "placement");
    if (placement) setText(placement, "tenancy", state.tenancy);
    const shown = textOf(childOf(item, "instanceState"), "name");
    if (shown === "running" && state.asked) setState(item, "32", "shutting-down");
    else if (shown === "running" && performance.now() - state.launchedAt < this.#delays.pendingMs)
      setState(item, "0", "pending");
    if (state.asked || shown === "terminated") setReason(item, state.reason ?? userReason);
  }
}

const userReason: StateReason = {
  code: "Client.UserInitiatedShutdown",
  message: "Client.UserInitiatedShutdown: User initiated shutdown",
};

/** Sets an instance's state. */
export function setState(item: XmlElement, code: string, name: string): void {
  const state = element("instanceState");
  setText(state, "code", code);
  setText(state, "name", name);
  setChild(item, state);
}

function setReason(item: XmlElement, { code, message }: StateReason): void {
  const reason = element("stateReason");
  setText(reason, "code", code);
  setText(reason, "message", message);
  setChild(item, reason);
}
