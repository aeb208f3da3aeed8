import { createSocket } from "node:dgram";
import { once } from "node:events";

/**
 * A name server at an address of this computer. It answers every query for an A record with the same address, and other queries
 * with an empty answer.
 *
 * @see https://www.rfc-editor.org/rfc/rfc1035 section 4
 */
export async function startNameServer(
  place: { readonly host: string; readonly port: number },
  answer: string,
): Promise<AsyncDisposable & { readonly asked: ReadonlySet<string> }> {
  const asked = new Set<string>();
  const socket = createSocket("udp4");
  socket.on("message", (question, from) => {
    const { name, type, end } = readQuestion(question);
    asked.add(name);
    const isAddress = type === 1;
    const header = Buffer.alloc(12);
    question.copy(header, 0, 0, 2);
    header.writeUInt16BE(0x81_80, 2); // a response without an error
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(isAddress ? 1 : 0, 6);
    // The question's name, A, IN, 5 s, 4 bytes.
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 0, 0, 0, 0]);
    for (const [index, octet] of answer.split(".").entries()) record[12 + index] = Number(octet);
    const parts = [header, question.subarray(12, end), ...(isAddress ? [record] : [])];
    socket.send(Buffer.concat(parts), from.port, from.address);
  });
  socket.bind(place.port, place.host);
  await once(socket, "listening");
  return {
    asked,
    [Symbol.asyncDispose]: async () => {
      const closed = once(socket, "close");
      socket.close();
      await closed;
    },
  };
}

function readQuestion(bytes: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = bytes[at] ?? 0; length > 0; length = bytes[at] ?? 0) {
    labels.push(bytes.toString("latin1", at + 1, at + 1 + length).toLowerCase());
    at += length + 1;
  }
  return { name: labels.join("."), type: bytes.readUInt16BE(at + 1), end: at + 5 };
}
