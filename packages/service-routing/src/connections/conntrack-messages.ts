import { canonicalAddress, type IpFamily } from "@kip/network-view";

/**
 * Messages of the kernel's connection table, in the format of nf_conntrack_netlink(7). Headers have the machine's byte order, and addresses
 * and ports have network byte order.
 *
 * @see include/uapi/linux/netfilter/nfnetlink_conntrack.h
 */
const types = { noop: 1, error: 2, done: 3, get: 0x01_01, new: 0x01_00, delete: 0x01_02 } as const;
const flags = { request: 0x01, acknowledge: 0x04, dump: 0x03_00 } as const;
const attributes = { original: 1, reply: 2, filter: 25, address: 1, protocol: 2 } as const;
const addressFields = { v4Source: 1, v4Destination: 2, v6Source: 3, v6Destination: 4 } as const;
const protocolFields = { number: 1, sourcePort: 2, destinationPort: 3 } as const;
/** Attributes of a filter, and bits for the fields that it compares. */
const filterFields = { originalFlags: 1, protocolBit: 1 << 3, destinationPortBit: 1 << 5 } as const;

/** The protocol number of UDP. */
export const udp = 17;

/** The flag of an attribute type whose payload consists of attributes. */
const nested = 0x80_00;

const headerBytes = 16;
const familyBytes = 4;

/** An entry of the connection table. */
export interface Flow {
  readonly family: IpFamily;
  readonly protocol: number;
  /** The address that the client sends to. */
  readonly destination: string;
  readonly port: number;
  /** The source address of replies. */
  readonly replySource: string;
  readonly replyPort: number;
  /** The attribute that identifies the connection, as sent by the kernel. */
  readonly tuple: Buffer;
}

/** A message of the kernel. */
export type Answer =
  | { readonly kind: "flow"; readonly flow: Flow }
  /** `errno` 0 means that a request was carried out, or that a list is complete. */
  | { readonly kind: "result" | "done"; readonly errno: number };

/** Selects the connections that the kernel lists: UDP to one port, all of UDP, or all. */
export type FlowFilter = { readonly port: number } | "udp" | "all";

/**
 * Requests a list of the connections in a family. Kernels before 5.8 ignore the filter and send all. Other kernels may respond with an error.
 */
export function listRequest(family: IpFamily, which: FlowFilter = "udp"): Buffer {
  if (which === "all")
    return request(types.get, flags.dump, { family, attribute: Buffer.alloc(0) });
  const bits = Buffer.alloc(4);
  const fields = [attributeOf(protocolFields.number, Buffer.of(udp))];
  bits.writeUInt32LE(filterFields.protocolBit);
  if (which !== "udp") {
    const port = Buffer.alloc(2);
    port.writeUInt16BE(which.port);
    fields.push(attributeOf(protocolFields.destinationPort, port));
    bits.writeUInt32LE(filterFields.protocolBit | filterFields.destinationPortBit);
  }
  const protocol = attributeOf(attributes.protocol, Buffer.concat(fields), nested);
  const attribute = Buffer.concat([
    attributeOf(attributes.original, protocol, nested),
    attributeOf(attributes.filter, attributeOf(filterFields.originalFlags, bits), nested),
  ]);
  return request(types.get, flags.dump, { family, attribute });
}

/** Requests the deletion of one connection. The kernel responds with a result. */
export function deleteRequest({ family, tuple }: Flow): Buffer {
  return request(types.delete, flags.acknowledge, { family, attribute: tuple });
}

/**
 * Parses the complete messages.
 *
 * @returns the messages, and the remaining bytes
 */
export function readAnswers(bytes: Buffer): {
  readonly answers: readonly Answer[];
  readonly rest: Buffer;
} {
  const answers: Answer[] = [];
  let at = 0;
  while (at + headerBytes <= bytes.length) {
    const length = Math.max(bytes.readUInt32LE(at), headerBytes);
    if (at + length > bytes.length) break;
    const message = bytes.subarray(at, at + length);
    const answer = readAnswer(message);
    if (answer) answers.push(answer);
    at += aligned(length);
  }
  return { answers, rest: bytes.subarray(Math.min(at, bytes.length)) };
}

function readAnswer(message: Buffer): Answer | undefined {
  const type = message.readUInt16LE(4);
  if (type === types.done || type === types.error) {
    const errno = message.length < headerBytes + 4 ? 0 : -message.readInt32LE(headerBytes);
    return { kind: type === types.done ? "done" : "result", errno };
  }
  if (type !== types.new) return undefined;
  const family: IpFamily = message[headerBytes] === 10 ? 6 : 4;
  const found = readAttributes(message.subarray(headerBytes + familyBytes));
  const [original, reply] = [found.get(attributes.original), found.get(attributes.reply)];
  if (!original || !reply) return undefined;
  const [to, back] = [readTuple(original.payload), readTuple(reply.payload)];
  const flow: Flow = {
    family,
    protocol: to.protocol,
    destination: to.destination,
    port: to.destinationPort,
    replySource: back.source,
    replyPort: back.sourcePort,
    tuple: original.whole,
  };
  return { kind: "flow", flow };
}

interface Attribute {
  readonly whole: Buffer;
  readonly payload: Buffer;
}

function readAttributes(bytes: Buffer): ReadonlyMap<number, Attribute> {
  const found = new Map<number, Attribute>();
  for (let at = 0; at + 4 <= bytes.length;) {
    const length = Math.max(bytes.readUInt16LE(at), 4);
    // The two highest bits are flags for the format of the payload.
    const type = bytes.readUInt16LE(at + 2) & 0x3f_ff;
    const end = Math.min(at + aligned(length), bytes.length);
    found.set(type, {
      whole: bytes.subarray(at, end),
      payload: bytes.subarray(at + 4, Math.min(at + length, bytes.length)),
    });
    at = end;
  }
  return found;
}

function readTuple(bytes: Buffer) {
  const parts = readAttributes(bytes);
  const none = Buffer.alloc(0);
  const addresses = readAttributes(parts.get(attributes.address)?.payload ?? none);
  const protocol = readAttributes(parts.get(attributes.protocol)?.payload ?? none);
  const address = (v4: number, v6: number): string =>
    addressText((addresses.get(v4) ?? addresses.get(v6))?.payload ?? none);
  const port = (field: number): number => {
    const payload = protocol.get(field)?.payload;
    return payload && payload.length >= 2 ? payload.readUInt16BE(0) : 0;
  };
  return {
    source: address(addressFields.v4Source, addressFields.v6Source),
    destination: address(addressFields.v4Destination, addressFields.v6Destination),
    protocol: protocol.get(protocolFields.number)?.payload[0] ?? 0,
    sourcePort: port(protocolFields.sourcePort),
    destinationPort: port(protocolFields.destinationPort),
  };
}

function addressText(bytes: Buffer): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = bytes.toString("hex").match(/.{4}/g) ?? [];
  return canonicalAddress(groups.join(":")) ?? "";
}

/** An attribute with its payload. @param more see {@link nested} */
function attributeOf(type: number, payload: Buffer, more = 0): Buffer {
  const whole = Buffer.alloc(aligned(4 + payload.length));
  whole.writeUInt16LE(4 + payload.length, 0);
  whole.writeUInt16LE(type | more, 2);
  payload.copy(whole, 4);
  return whole;
}

function request(
  type: number,
  more: number,
  { family, attribute }: { readonly family: IpFamily; readonly attribute: Buffer },
): Buffer {
  const head = Buffer.alloc(headerBytes + familyBytes);
  head.writeUInt32LE(head.length + attribute.length, 0);
  head.writeUInt16LE(type, 4);
  head.writeUInt16LE(flags.request | more, 6);
  head.writeUInt32LE(1, 8);
  head[headerBytes] = family === 4 ? 2 : 10; // AF_INET, AF_INET6
  return Buffer.concat([head, attribute]);
}

/** Messages and attributes begin at multiples of four bytes. */
function aligned(length: number): number {
  return (length + 3) & ~3;
}
