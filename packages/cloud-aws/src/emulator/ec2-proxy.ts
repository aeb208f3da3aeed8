import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { portOf, SerialQueue } from "@kip/base";
import { ClientTokens, errorAnswer, type Answer } from "./client-tokens.ts";
import { DirectSnapshots } from "./direct-snapshots.ts";
import { Ec2Faults } from "./ec2-faults.ts";
import { Ec2States, setState, type Ec2Delays, type StateReason } from "./ec2-states.ts";
import { HostStates } from "./host-states.ts";
import { forwardTarget } from "./json-calls.ts";
import {
  machineLaunchOf,
  refusalOf,
  tagList,
  tagsOf,
  type Machine,
  type Machines,
} from "./machines.ts";
import { loseRoutes } from "./lost-routes.ts";
import { RegisteredImages } from "./registered-images.ts";
import { showRanges } from "./subnet-ranges.ts";
import {
  childOf,
  element,
  itemsOf,
  parseXml,
  printXml,
  setText,
  textOf,
  type XmlElement,
} from "./xml.ts";

/** The tagged resources of a launch. */
interface TaggedLaunch {
  readonly resources: readonly string[];
  readonly keys: readonly string[];
}

/** moto reads a call's service and region from this header and verifies nothing. */
const authorization =
  "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0";
const powerOff: StateReason = {
  code: "Client.InstanceInitiatedShutdown",
  message: "Client.InstanceInitiatedShutdown: Instance initiated shutdown",
};
const spotLoss: StateReason = {
  code: "Server.SpotInstanceTermination",
  message: "Server.SpotInstanceTermination: Spot instance termination",
};

/**
 * EC2 as documented, on top of moto. Adds what moto lacks (second addresses, tags of interfaces, client tokens, states that
 * take time, lagging responses, attachments that exclude each other), and faults on demand.
 */
export class Ec2Proxy implements AsyncDisposable {
  readonly faults = new Ec2Faults();
  /** The EBS direct API, at the same address. */
  readonly snapshots: DirectSnapshots;
  readonly images = new RegisteredImages(async (action, parameters) =>
    this.ask(action, parameters),
  );
  readonly hosts = new HostStates(async (action, parameters) => this.ask(action, parameters));
  /** Names of the called actions. Those of the EBS direct API begin with `ebs:`. */
  readonly actions: string[] = [];
  readonly #moto: string;
  readonly #states: Ec2States;
  readonly #delays: Ec2Delays;
  readonly #tokens = new ClientTokens();
  readonly #queue = new SerialQueue();
  readonly #closed = new AbortController();
  readonly #interfaces = new Map<string, string>();
  /** By instance ID. */
  readonly #tagged = new Map<string, TaggedLaunch>();
  /** Interfaces of ended instances. */
  readonly #lost = new Map<string, string>();
  readonly #machineSource: Machines | undefined;
  /** By instance ID. */
  readonly #machines = new Map<string, Machine>();
  #server: Server | undefined;

  /** @param machines machines to run for the instances. Without it, instances only exist as moto's entries */
  constructor(moto: string, delays: Partial<Ec2Delays> = {}, machines?: Machines) {
    this.#moto = moto;
    this.snapshots = new DirectSnapshots(moto, this.faults);
    this.#machineSource = machines;
    this.#delays = { pendingMs: 0, stopMs: 0, lagMs: 0, forgetMs: 3000, ...delays };
    this.#states = new Ec2States(this.#delays);
  }

  async start(): Promise<string> {
    const server = createServer((request, response) => void this.#serve(request, response));
    this.#server = server;
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return `http://127.0.0.1:${portOf(server)}`;
  }

  /** Ends an instance at once, as if the cloud took it back or for another reason. */
  async kill(id: string, reason: StateReason = spotLoss): Promise<void> {
    this.#states.killed(id, reason);
    await this.#end(id);
  }

  /** Sends a call to moto directly. */
  async ask(action: string, parameters: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return await this.#forward(new URLSearchParams({ Action: action, ...parameters }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    this.#server?.closeAllConnections();
    this.#server?.close();
    await Promise.resolve();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const direct = DirectSnapshots.callOf(request);
      if (direct) {
        this.actions.push(`ebs:${direct.action}`);
        await this.snapshots.serve(direct, request, response);
        return;
      }
      const body = await text(request);
      if (request.headers["x-amz-target"] !== undefined) {
        const { status, body: answer } = await forwardTarget(this.#moto, request.headers, body);
        response.writeHead(status, { "content-type": "application/x-amz-json-1.1" }).end(answer);
        return;
      }
      const parameters = new URLSearchParams(body);
      const action = parameters.get("Action") ?? "";
      this.actions.push(action);
      const fault = this.faults.take(action);
      // EC2 checks the token first: it does not refuse a repeated launch for lack of capacity.
      const isKnown = fault?.status === undefined && this.#tokens.has(parameters);
      const isRefused = fault !== undefined && fault.code !== "lost" && !isKnown;
      const answer = isRefused
        ? errorAnswer(fault.code, fault.message ?? "injected", fault.status)
        : await this.#tokens.run(parameters, () => this.#do(action, parameters));
      if (fault?.code === "lost") {
        request.socket.destroy();
        return;
      }
      response.writeHead(answer.status, { "content-type": "text/xml" }).end(answer.body);
    } catch {
      request.socket.destroy(); // the test is over, or the client has disconnected
    }
  }

  async #do(action: string, parameters: URLSearchParams): Promise<Answer> {
    switch (action) {
      case "RunInstances":
        return await this.#launch(parameters);
      case "GetConsoleOutput":
        return await this.#console(parameters);
      case "TerminateInstances":
        return await this.#terminate(parameters);
      case "DescribeInstances":
        return await this.#describe(parameters);
      case "DescribeRouteTables":
        return await this.#changed(parameters, (tree) => loseRoutes(tree, this.#lost));
      case "DescribeSnapshots":
        return await this.#changed(parameters, (tree) => this.snapshots.show(tree));
      case "DescribeImages":
        return await this.#changed(parameters, (tree) => this.images.show(tree));
      case "DescribeSubnets":
        return await this.#changed(parameters, showRanges);
      case "DescribeHosts":
        return await this.#changed(parameters, (tree) => this.hosts.show(tree));
      case "ReleaseHosts":
        return await this.#queue.run(() => this.hosts.release(valuesOf(parameters, "HostId")));
      case "RegisterImage":
        return await this.images.register(parameters);
      case "CreateTags":
        return await this.#tag(parameters);
      case "AttachVolume":
        return await this.#queue.run(async () => await this.#attach(parameters));
      default:
        return await this.#forward(parameters);
    }
  }

  /** Starts the machine first, because moto's instance needs the machine's addresses. */
  async #launch(parameters: URLSearchParams): Promise<Answer> {
    if (!this.#machineSource) return await this.#runOnHost(parameters);
    let id: string | undefined;
    let end: StateReason | undefined;
    const noteEnd = (): void => {
      if (id !== undefined && end) void this.kill(id, end).catch(() => {}); // the proxy was closed
    };
    const onEnd = (how: "itself" | "taken"): void => {
      end = how === "taken" ? spotLoss : powerOff;
      noteEnd();
    };
    let machine: Machine;
    try {
      machine = await this.#machineSource.start(machineLaunchOf(parameters), onEnd);
    } catch (error) {
      return refusalOf(error);
    }
    parameters.set("NetworkInterface.1.PrivateIpAddress", machine.managementIp);
    const answer = await this.#run(parameters, machine).catch(async (error: unknown) => {
      await machine.end();
      throw error;
    });
    if (answer.status !== 200) await machine.end();
    else id = textOf(itemsOf(parseXml(answer.body), "instancesSet")[0], "instanceId");
    noteEnd();
    return answer;
  }

  /** Launches on a host, one launch at a time, because each takes room. */
  async #runOnHost(parameters: URLSearchParams): Promise<Answer> {
    const hostId = parameters.get("Placement.HostId");
    if (hostId === null) return await this.#run(parameters);
    return await this.#queue.run(async () => {
      const type = parameters.get("InstanceType") ?? "";
      return (await this.hosts.refusal(hostId, type)) ?? (await this.#run(parameters));
    });
  }

  /** Adds the second address and the interface's tags, and returns what EC2 would show. */
  async #run(parameters: URLSearchParams, machine?: Machine): Promise<Answer> {
    const answer = await this.#forward(parameters);
    if (answer.status !== 200) return answer;
    const [item] = itemsOf(parseXml(answer.body), "instancesSet");
    const id = textOf(item, "instanceId");
    if (machine) this.#machines.set(id, machine);
    machine?.named(id);
    this.#states.launched(id, parameters.get("Placement.Tenancy") ?? "default");
    this.hosts.launched(id, parameters.get("Placement.HostId") ?? "");
    const nic = textOf(itemsOf(item, "networkInterfaceSet")[0], "networkInterfaceId");
    this.#interfaces.set(id, nic);
    await this.ask("AssignPrivateIpAddresses", {
      NetworkInterfaceId: nic,
      ...(machine
        ? { "PrivateIpAddress.1": machine.podIp }
        : { SecondaryPrivateIpAddressCount: "1" }),
    });
    const second = parameters.get("NetworkInterface.1.Ipv6AddressCount");
    if (second !== null)
      await this.ask("AssignIpv6Addresses", { NetworkInterfaceId: nic, Ipv6AddressCount: second });
    await this.#forward(tagsOfInterface(parameters, nic));
    const described = parseXml((await this.ask("DescribeInstances", { "InstanceId.1": id })).body);
    const reservation = itemsOf(described, "reservationSet")[0] ?? element("item");
    for (const each of itemsOf(reservation, "instancesSet")) {
      const disks = itemsOf(each, "blockDeviceMapping").map((disk) =>
        textOf(childOf(disk, "ebs"), "volumeId"),
      );
      const keys = Object.keys(tagsOf(parameters, "instance"));
      this.#tagged.set(id, { resources: [id, nic, ...disks], keys });
      this.#states.applyTo(each);
      setState(each, "0", "pending");
    }
    const result = element("RunInstancesResponse");
    result.children.push(element("requestId", "", "proxy"), ...reservation.children);
    return { status: 200, body: printXml(result) };
  }

  /** Ends instances after a while. Like EC2, ends none of them if one is unknown. */
  async #terminate(parameters: URLSearchParams): Promise<Answer> {
    const ids = valuesOf(parameters, "InstanceId");
    for (const id of ids) {
      const known = await this.ask("DescribeInstances", { "InstanceId.1": id });
      if (known.status !== 200) return known;
      if (this.#states.isHidden(id)) return notFound(id);
    }
    for (const id of ids) if (this.#states.ask(id)) void this.#endLater(id);
    const result = element("TerminateInstancesResponse");
    const set = element("instancesSet");
    result.children.push(element("requestId", "", "proxy"), set);
    for (const id of ids) {
      const item = element("item");
      setText(item, "instanceId", id);
      const state = element("currentState");
      setText(state, "code", "32");
      setText(state, "name", "shutting-down");
      item.children.push(state);
      set.children.push(item);
    }
    return { status: 200, body: printXml(result) };
  }

  async #endLater(id: string): Promise<void> {
    try {
      const { signal } = this.#closed;
      await setTimeout(this.#delays.stopMs, undefined, { signal });
      await this.#end(id);
      // EC2 shows an ended instance for about an hour. moto shows it forever, which makes responses long, so its tags are
      // removed and filters no longer find it. For each instance of a response, moto reads all tags that it knows. So the tags
      // of disks and interfaces are removed, too.
      await setTimeout(this.#delays.forgetMs, undefined, { signal, ref: false });
      const { resources, keys } = this.#tagged.get(id) ?? { resources: [id], keys: [] };
      this.#tagged.delete(id);
      await this.ask("DeleteTags", {
        ...Object.fromEntries(resources.map((each, index) => [`ResourceId.${index + 1}`, each])),
        ...Object.fromEntries(keys.map((key, index) => [`Tag.${index + 1}.Key`, key])),
      });
    } catch {
      // the proxy was closed
    }
  }

  /** Ends an instance, and keeps its interface, which moto forgets. */
  async #end(id: string): Promise<void> {
    const machine = this.#machines.get(id);
    this.#machines.delete(id);
    await machine?.end();
    this.hosts.ended(id);
    await this.ask("TerminateInstances", { "InstanceId.1": id });
    const nic = this.#interfaces.get(id);
    this.#interfaces.delete(id);
    if (nic === undefined) return;
    this.#lost.set(id, nic);
    const described = await this.ask("DescribeNetworkInterfaces", { "NetworkInterfaceId.1": nic });
    const [item] = itemsOf(parseXml(described.body), "networkInterfaceSet");
    const attachment = textOf(childOf(item, "attachment"), "attachmentId");
    if (attachment !== "") await this.ask("DetachNetworkInterface", { AttachmentId: attachment });
    await this.ask("DeleteNetworkInterface", { NetworkInterfaceId: nic });
  }

  async #describe(parameters: URLSearchParams): Promise<Answer> {
    const hidden = valuesOf(parameters, "InstanceId").find((id) => this.#states.isHidden(id));
    if (hidden !== undefined) return notFound(hidden);
    return await this.#changed(parameters, (tree) => this.#states.apply(tree));
  }

  /** moto's response with these changes. */
  async #changed(parameters: URLSearchParams, change: (tree: XmlElement) => void): Promise<Answer> {
    const answer = await this.#forward(parameters);
    if (answer.status !== 200) return answer;
    const tree = parseXml(answer.body);
    change(tree);
    return { status: 200, body: printXml(tree) };
  }

  /** moto's response with the machine's console output. */
  async #console(parameters: URLSearchParams): Promise<Answer> {
    const answer = await this.#forward(parameters);
    const machine = this.#machines.get(parameters.get("InstanceId") ?? "");
    if (answer.status !== 200 || !machine) return answer;
    const tree = parseXml(answer.body);
    setText(tree, "output", Buffer.from(await machine.console()).toString("base64"));
    return { status: 200, body: printXml(tree) };
  }

  async #tag(parameters: URLSearchParams): Promise<Answer> {
    const answer = await this.#forward(parameters);
    if (answer.status !== 200) return answer;
    for (const id of valuesOf(parameters, "ResourceId"))
      await this.#machines.get(id)?.tagged(tagList(parameters, "Tag."));
    return answer;
  }

  /** moto would attach an attached volume again. This refuses it, like EC2. */
  async #attach(parameters: URLSearchParams): Promise<Answer> {
    const id = parameters.get("VolumeId") ?? "";
    const known = await this.ask("DescribeVolumes", { "VolumeId.1": id });
    const [volume] = itemsOf(parseXml(known.body), "volumeSet");
    if (textOf(volume, "status") === "in-use")
      return errorAnswer("VolumeInUse", `${id} is already attached to an instance`);
    return await this.#forward(parameters);
  }

  async #forward(parameters: URLSearchParams): Promise<Answer> {
    if (!parameters.has("Version")) parameters.set("Version", "2016-11-15");
    const answer = await fetch(this.#moto, {
      method: "POST",
      headers: { authorization, "content-type": "application/x-www-form-urlencoded" },
      body: parameters.toString(),
      signal: this.#closed.signal,
    });
    return { status: answer.status, body: await answer.text() };
  }
}

function tagsOfInterface(parameters: URLSearchParams, nic: string): URLSearchParams {
  const tags = Object.entries(tagsOf(parameters, "network-interface"));
  return new URLSearchParams([
    ["Action", "CreateTags"],
    ["ResourceId.1", nic],
    ...tags.flatMap(([name, value], index): [string, string][] => [
      [`Tag.${index + 1}.Key`, name],
      [`Tag.${index + 1}.Value`, value],
    ]),
  ]);
}

function valuesOf(parameters: URLSearchParams, name: string): readonly string[] {
  const isListed = (key: string): boolean =>
    key.startsWith(`${name}.`) && /^\d+$/.test(key.slice(name.length + 1));
  return [...parameters].filter(([key]) => isListed(key)).map(([, value]) => value);
}

function notFound(id: string): Answer {
  return errorAnswer("InvalidInstanceID.NotFound", `The instance ID '${id}' does not exist`);
}
