import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { commandChannels, portForwardChannels, queryPorts } from "./subprotocols.ts";

describe("queryPorts()", () => {
  const ports = (query: string): readonly number[] => queryPorts(new URLSearchParams(query));

  it("S8: reads one port, several values and lists", () => {
    assert.deepEqual(ports("port=80"), [80]);
    assert.deepEqual(ports("port=80,90&port=100"), [80, 90, 100]);
    assert.deepEqual(ports("port=1&port=65535"), [1, 65_535]);
    assert.deepEqual(ports("other=1&port=80&port=80"), [80, 80]);
  });

  it("S8: refuses an invalid port, naming it", () => {
    const refusals = [
      ["", /"port" is required/],
      ["port=", /cannot be empty/],
      ["port=80,", /unable to parse "" as a port/],
      ["port=http", /unable to parse "http"/],
      ["port=-1", /unable to parse "-1"/],
      ["port=65536", /unable to parse "65536"/],
      ["port=0", /"0" must be > 0/],
      [`port=${Array(128).fill(80).join(",")}`, /at most 127 ports/],
    ] as const;
    for (const [query, message] of refusals) assert.throws(() => ports(query), { message });
  });
});

describe("commandChannels() and portForwardChannels()", () => {
  it("announces the first channel that is written", () => {
    const none = { stdin: true, stdout: false, stderr: false, tty: false };
    const first = (wanted: Partial<typeof none>): number | undefined =>
      commandChannels("v4.channel.k8s.io", { ...none, ...wanted }).greetings[0]?.channel;
    assert.equal(first({ stdout: true, stderr: true }), 1);
    assert.equal(first({ stderr: true }), 2);
    assert.equal(first({}), 3);
  });

  it("gives each port two channels that begin with the port", () => {
    const { channels, greetings, closesWhenDone } = portForwardChannels("", [80, 443]);
    assert.deepEqual(
      channels.map(({ channel, direction, headers }) => [
        channel,
        direction,
        headers.get("port"),
        headers.get("requestid"),
      ]),
      [
        [0, "both", "80", "0"],
        [1, "write", "80", "0"],
        [2, "both", "443", "1"],
        [3, "write", "443", "1"],
      ],
    );
    assert.deepEqual(
      greetings.map(({ data }) => data.readUInt16LE()),
      [80, 80, 443, 443],
    );
    assert.ok(closesWhenDone);
  });
});
