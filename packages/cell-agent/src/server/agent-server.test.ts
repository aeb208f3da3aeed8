import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { describe, it } from "node:test";
import { createLogger } from "@kip/base";
import { CertificateAuthority } from "@kip/pki";
import { listen } from "./agent-server.ts";

const hour = 3_600_000;

describe("listen()", { timeout: 60_000 }, () => {
  it("logs one of many connections that are refused, however many a stranger opens", async () => {
    const authority = await CertificateAuthority.create({ commonName: "kip", validMs: hour });
    const pair = await authority.issue({ commonName: "cell", usages: ["server"], validMs: hour });
    const lines: string[] = [];
    await using server = await listen({
      identity: { cellName: "cell", ca: authority.certificate, ...pair },
      port: 0,
      host: "127.0.0.1",
      handler: async () => {},
      logger: createLogger({ write: (line) => void lines.push(line) }),
    });
    for (let count = 0; count < 50; count++) {
      const socket = net.connect(server.port, "127.0.0.1").on("error", () => {});
      socket.resume().end("not TLS at all, but long enough to be refused\n");
      await once(socket, "close");
    }
    assert.equal(lines.length, 1, lines.join("\n"));
    assert.match(lines[0] ?? "", /Refused a connection/);
  });
});
