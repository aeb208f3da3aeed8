import { errorAnswer, type Answer } from "./client-tokens.ts";
import {
  childOf,
  element,
  itemsOf,
  parseXml,
  printXml,
  setChild,
  setText,
  textOf,
  type XmlElement,
} from "./xml.ts";

type Ask = (action: string, parameters?: Readonly<Record<string, string>>) => Promise<Answer>;

/** What moto's dedicated hosts lack: instances, capacity, states that take time, and refused releases. */
export class HostStates {
  /** How many instances fit on each host. */
  capacity = 2;
  /** How long a new host is `pending`, milliseconds. */
  pendingMs = 0;
  /** Hosts that EC2 refuses to release for now, such as those of Macs on their first day, with EC2's message. */
  readonly kept = new Map<string, string>();
  readonly #ask: Ask;
  /** Hosts by instance ID. */
  readonly #hosts = new Map<string, string>();
  readonly #since = new Map<string, number>();

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /** EC2's refusal of a launch on a host. Undefined if the launch is allowed. */
  async refusal(hostId: string, instanceType: string): Promise<Answer | undefined> {
    const { body } = await this.#ask("DescribeHosts", { "HostId.1": hostId });
    const tree = parseXml(body);
    this.show(tree);
    const host = itemsOf(tree, "hostSet").find((each) => textOf(each, "hostId") === hostId);
    const state = textOf(host, "state");
    if (!host || state === "released")
      return errorAnswer("InvalidHostID.NotFound", `The host ID '${hostId}' does not exist`);
    if (state !== "available")
      return errorAnswer("InvalidHostState", `The host '${hostId}' is ${state}`);
    if (textOf(childOf(host, "hostProperties"), "instanceType") !== instanceType)
      return errorAnswer("UnsupportedHostConfiguration", "The host takes another type");
    if (this.#instancesOf(hostId).length >= this.capacity)
      return errorAnswer("InsufficientCapacityOnHost", `The host '${hostId}' is full`);
    return undefined;
  }

  launched(instanceId: string, hostId: string): void {
    this.#hosts.set(instanceId, hostId);
  }

  ended(instanceId: string): void {
    this.#hosts.delete(instanceId);
  }

  /** Changes a response of DescribeHosts. */
  show(answer: XmlElement): void {
    for (const host of itemsOf(answer, "hostSet")) {
      const id = textOf(host, "hostId");
      const since = this.#since.get(id) ?? performance.now();
      this.#since.set(id, since);
      const isNew = performance.now() - since < this.pendingMs;
      if (isNew && textOf(host, "state") === "available") setText(host, "state", "pending");
      const type = textOf(childOf(host, "hostProperties"), "instanceType");
      const instances = this.#instancesOf(id);
      const room = { instanceType: type, availableCapacity: this.capacity - instances.length };
      const capacity = element("availableCapacity");
      setChild(capacity, list("availableInstanceCapacity", [room]));
      setChild(host, capacity);
      const on = instances.map((instanceId) => ({ instanceId, instanceType: type }));
      setChild(host, list("instances", on));
    }
  }

  /** Releases the empty hosts of a call, and refuses the others. */
  async release(hostIds: readonly string[]): Promise<Answer> {
    const refusals = hostIds.flatMap((id) => {
      const words = this.#instancesOf(id).length > 0 ? "the host has instances" : this.kept.get(id);
      return words === undefined ? [] : [{ id, words }];
    });
    const free = hostIds.filter((id) => !refusals.some((each) => each.id === id));
    if (free.length > 0)
      await this.#ask(
        "ReleaseHosts",
        Object.fromEntries(free.map((id, index) => [`HostId.${index + 1}`, id])),
      );
    const answer = element("ReleaseHostsResponse");
    const successful = element("successful");
    successful.children.push(...free.map((id) => element("item", "", id)));
    const unsuccessful = element("unsuccessful");
    unsuccessful.children.push(...refusals.map(({ id, words }) => refused(id, words)));
    answer.children.push(successful, unsuccessful);
    return { status: 200, body: printXml(answer) };
  }

  #instancesOf(hostId: string): readonly string[] {
    return [...this.#hosts].filter(([, host]) => host === hostId).map(([id]) => id);
  }
}

function refused(id: string, words: string): XmlElement {
  const item = element("item");
  setText(item, "resourceId", id);
  const error = element("error");
  setText(error, "code", "Client.InvalidHost.Occupied");
  setText(error, "message", words);
  item.children.push(error);
  return item;
}

function list(
  name: string,
  entries: readonly Readonly<Record<string, string | number>>[],
): XmlElement {
  const set = element(name);
  for (const entry of entries) {
    const item = element("item");
    for (const [key, value] of Object.entries(entry)) setText(item, key, String(value));
    set.children.push(item);
  }
  return set;
}
