import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CommandError, silentLogger, type Logger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import type { ClientMap } from "./affinity-rules.ts";
import { copyClients } from "./kept-clients.ts";

const map = (namespace: string, name = "a"): ClientMap => ({
  ip: "ip",
  name: `clients/all/${namespace}/${name}/tcp-80`,
  namespace,
});

/** What nft prints of a map with these elements. */
const printed = (elements: readonly string[]): string =>
  `table ip kip_services_a {\n\tmap clients/x {\n\t\ttype ipv4_addr : mark\n\t\tsize 65536\n` +
  `\t\tflags dynamic,timeout\n\t\telements = { ${elements.join(",\n\t\t\t     ")} }\n\t}\n}\n`;

const missing = (): CommandError =>
  new CommandError("COMMAND_FAILED", "nft failed", { stderr: "Error: No such file or directory" });

/** Commands given to nft while clients are kept; `list` gives what it prints of a map. */
async function commandsOf(
  maps: readonly ClientMap[],
  list: (command: string) => string,
  logger: Logger = silentLogger,
): Promise<readonly string[]> {
  const commands: string[] = [];
  const runNft = async (text: string): Promise<string> => {
    commands.push(text);
    return await Promise.resolve(text.startsWith("list") ? list(text) : "");
  };
  await copyClients(maps, { from: "kip_services_a", to: "kip_services_b", runNft, logger });
  return commands;
}

describe("copyClients()", () => {
  it("adds clients with the time that they have left, and none whose time is over or of a map that is not there", async () => {
    const maps = [map("one"), { ...map("two"), ip: "ip6" } as const, map("three")];
    const commands = await commandsOf(maps, (command) => {
      if (command.includes("one"))
        return printed([
          "10.1.0.2 timeout 3h expires 2h59m55s128ms : 0x40000001",
          "10.1.0.3 timeout 1s expires 0s : 0x40000001",
          "10.1.0.4 expires 436ms : 0x4fffffff",
        ]);
      if (command.includes("three")) throw missing();
      return printed(["::ffff:1.2.3.4 timeout 1d expires 20s : 0x40000003"]);
    });
    assert.deepEqual(commands, [
      "list map ip kip_services_a clients/all/one/a/tcp-80\n",
      "list map ip6 kip_services_a clients/all/two/a/tcp-80\n",
      "list map ip kip_services_a clients/all/three/a/tcp-80\n",
      "add element ip kip_services_b clients/all/one/a/tcp-80 { " +
        "10.1.0.2 timeout 2h59m55s128ms : 0x40000001, 10.1.0.4 timeout 436ms : 0x4fffffff }\n" +
        "add element ip6 kip_services_b clients/all/two/a/tcp-80 { ::ffff:1.2.3.4 timeout 20s : 0x40000003 }\n",
    ]);
  });

  it("reads 32 maps, those of namespaces in turn", async () => {
    const many = Array.from({ length: 100 }, (_, i) => map("many", `s${i}`));
    const commands = await commandsOf([...many, map("few", "x"), map("few", "y")], () => "");
    assert.equal(commands.length, 32);
    for (const name of ["few/x", "few/y"])
      assert.ok(commands.slice(0, 4).some((command) => command.includes(name)));
  });

  it("keeps 1,024 clients of a map, in parts, and reads no other map when very many have been read", async () => {
    const elements = Array.from(
      { length: 65_536 },
      (_, i) => `10.1.${i >> 8}.${i & 255} timeout 3h expires 2h59m55s128ms : 0x40000001`,
    );
    const full = printed(elements);
    const maps = Array.from({ length: 20 }, (_, i) => map(`ns${i}`));
    const few = printed(elements.slice(0, 2000));
    const commands = await commandsOf(maps, (command) => (command.includes("ns1") ? full : few));
    const isRead = (command: string): boolean => command.startsWith("list");
    assert.ok(commands.filter(isRead).length < maps.length);
    assert.ok(commands.every((command) => command.length < 400_000));
    const some = await commandsOf(maps, () => few);
    assert.ok(some.filter((command) => !isRead(command)).length > 1);
    assert.equal(some.join("").match(/timeout/g)?.length, maps.length * 1024);
  });

  it("reports a map whose clients cannot be read, and keeps those of others", async () => {
    const lines: string[] = [];
    const warn = (message: string): void => void lines.push(message);
    const commands = await commandsOf(
      [map("one"), map("two")],
      (command) => {
        if (command.includes("one")) return printed(["10.1.0.2 expires 1h : 0x40000001"]);
        throw new CommandError("COMMAND_FAILED", "nft was killed", {});
      },
      { ...silentLogger, warn },
    );
    assert.equal(commands.length, 3);
    assert.match(commands[2] ?? "", /add element .* 10\.1\.0\.2 timeout 1h/);
    assert.equal(lines.length, 1);
  });

  it("reads for 20 s at most, and keeps the clients that it has read by then", async () => {
    const clock = new ManualClock();
    const commands: string[] = [];
    const runNft = async (text: string): Promise<string> => {
      commands.push(text);
      if (text.includes("list") && text.includes("two")) return await new Promise(() => {});
      return await Promise.resolve(printed(["10.1.0.2 expires 1h : 0x40000001"]));
    };
    const [from, to] = ["kip_services_a", "kip_services_b"] as const;
    const maps = [map("one"), map("two"), map("three")];
    const kept = copyClients(maps, { from, to, runNft, clock, logger: silentLogger });
    await clock.advance(19_999);
    assert.equal(await Promise.race([kept, Promise.resolve("waits")]), "waits");
    await clock.advance(1);
    await kept;
    assert.deepEqual(commands, [
      "list map ip kip_services_a clients/all/one/a/tcp-80\n",
      "list map ip kip_services_a clients/all/two/a/tcp-80\n",
      "add element ip kip_services_b clients/all/one/a/tcp-80 { 10.1.0.2 timeout 1h : 0x40000001 }\n",
    ]);
  });
});
