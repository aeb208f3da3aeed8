import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { runCommand } from "@kip/base";
import { dialCommand } from "./port-forward.ts";

describe("dialCommand()", () => {
  it("port-forward SSRF: dials a port of the pod's own network namespace, and no address that anybody names", () => {
    const words = dialCommand("/run/netns/pod", 8080);
    assert.deepEqual(words.slice(0, 2), ["/usr/bin/nsenter", "--net=/run/netns/pod"]);
    assert.equal(words.at(-1), "8080");
  });

  for (const host of ["127.0.0.1", "::1"])
    it(`reaches a program that listens on ${host} alone, and passes on the end of each direction`, async (t) => {
      if (process.getuid?.() !== 0) return t.skip("needs root");
      const server = net.createServer({ allowHalfOpen: true }, (socket) => {
        void text(socket).then((got) => socket.end(`got ${got}`));
      });
      server.listen(0, host);
      await once(server, "listening");
      const { port } = server.address() as net.AddressInfo; // of a TCP server
      const [program = "", ...words] = dialCommand("/proc/self/ns/net", port);
      const { stdout } = await runCommand(program, words, { input: "hello", timeoutMs: 30_000 });
      server.close();
      assert.equal(stdout, "got hello");
    });

  it("says why nothing was reached", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("needs root");
    const [program = "", ...words] = dialCommand("/proc/self/ns/net", 1);
    await assert.rejects(runCommand(program, words), /Connection refused/);
  });
});
