import assert from "node:assert/strict";
import { once } from "node:events";
import http2 from "node:http2";
import net, { type Socket } from "node:net";
import { describe, it } from "node:test";
import tls from "node:tls";
import { CertificateAuthority } from "@kip/pki";
import { openSession, openTcp } from "./open-session.ts";
import { cellServerName } from "./routes.ts";

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

  it("leaves no listener for the end of an open connection, which would make an error", async (t) => {
    const validMs = 3_600_000;
    const authority = await CertificateAuthority.create({ commonName: "kip", validMs });
    const names = { commonName: "c", dnsNames: [cellServerName("c")] };
    const agent = await authority.issue({ ...names, usages: ["server"], validMs });
    const kip = await authority.issue({ commonName: "kip", usages: ["client"], validMs });
    const server = http2.createSecureServer({ cert: agent.certificate, key: agent.key });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => server.close());
    const { port } = server.address() as net.AddressInfo;
    const ca = authority.certificate;
    const peer = { address: "127.0.0.1", cellName: "c", ca, ...kip };
    const limits = { timeoutMs: 5000 };
    const bare = net.connect(port, "127.0.0.1");
    t.after(() => bare.destroy());
    await once(bare, "connect");
    const socket = await openTcp(peer, { port, ...limits });
    t.after(() => socket.destroy());
    for (const event of ["connect", "close"])
      assert.equal(socket.listenerCount(event), bare.listenerCount(event), event);
    const session = await openSession(socket, peer, limits);
    t.after(() => session.destroy());
    for (const event of ["remoteSettings", "close"])
      assert.equal(session.listenerCount(event), 0, event);
    const closed = new Promise((resolve) => session.once("close", resolve));
    session.destroy(new Error("no listener needs to wait for it"));
    await closed;
  });
});
