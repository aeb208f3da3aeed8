import assert from "node:assert/strict";
import net, { type Socket } from "node:net";
import { describe, it } from "node:test";
import tls from "node:tls";
import { openSession } from "./open-session.ts";

/** Node's conversion of the protocol list for a connection, which its types lack. */
const { convertALPNProtocols } = tls as unknown as {
  convertALPNProtocols: (from: unknown, into: { ALPNProtocols?: Buffer }) => void;
};

describe("openSession()", () => {
  it("keeps no pool of 64 KiB for the name of its protocol", async (t) => {
    const connect = t.mock.method(tls, "connect");
    const server = net.createServer((socket: Socket) => socket.destroy());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as net.AddressInfo;
    const peer = { address: "127.0.0.1", cellName: "c", ca: "", certificate: "", key: "" };
    const socket = net.connect(port, "127.0.0.1");
    await assert.rejects(openSession(socket, peer, { timeoutMs: 5000 }));
    server.close();
    const [call] = connect.mock.calls;
    assert.ok(call);
    const [options] = call.arguments as unknown as [tls.ConnectionOptions];
    const kept: { ALPNProtocols?: Buffer } = {};
    convertALPNProtocols(options.ALPNProtocols, kept);
    assert.deepEqual([...(kept.ALPNProtocols ?? [])], [2, ...Buffer.from("h2")]);
    assert.equal(kept.ALPNProtocols?.buffer.byteLength, 3);
  });
});
