import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { PolicyView } from "@kip/network-view";
import { egressTables, NetworkRules } from "../src/index.ts";
import { cable, cellAddresses, podAddresses, TestNetwork } from "./test-network.ts";

const [pod, pod6] = podAddresses;
const [cell, cell6] = cellAddresses;
/** The machine "others" has addresses of the internet besides those of the cell's network. */
const [internet, internet6] = ["198.51.100.7", "2001:db8::7"];
const directRanges = ["10.0.0.0/8", "10.0.0.0/24", "100.64.0.0/10", "fc00::/7"];

describe("egressTables()", () => {
  let network: TestNetwork;
  const apply = async (...ranges: readonly string[]): Promise<void> => {
    await network.nft(egressTables({ podAddresses, cable, directRanges: ranges }));
  };
  const restrict = async (number: number, policy: PolicyView): Promise<void> =>
    await rules.apply({ number, services: new Map(), buckets: [], groups: [], policy });
  let rules: NetworkRules;

  before(async () => {
    network = await TestNetwork.open();
    await network.others.ip(
      `addr add ${internet}/32 dev eth0`,
      `addr add ${internet6}/128 dev eth0 nodad`,
    );
    for (const host of ["10.0.0.100", "fd00::100", internet, internet6])
      await network.others.listen(host, 80);
    await network.pod.listen(pod, 8080);
    await network.pod.listen("::", 8081);
    rules = new NetworkRules({
      place: { podAddresses, cable, nodeAddresses: [], serviceRanges: [] },
      runNft: async (text) => await network.nft(text),
      forget: async () => {},
      logger: silentLogger,
    });
    await restrict(1, {});
  });
  after(async () => await network[Symbol.asyncDispose]());

  it("give packets to other ranges the machine's address, and leave those to direct ones", async () => {
    assert.equal(await network.pod.tcp(internet, 80), `${internet} ${pod}`);
    await apply(...directRanges);
    assert.equal(await network.pod.tcp(internet, 80), `${internet} ${cell}`);
    assert.equal(await network.pod.tcp(internet6, 80), `${internet6} ${cell6}`);
    assert.equal(await network.pod.tcp("10.0.0.100", 80), `10.0.0.100 ${pod}`);
    assert.equal(await network.pod.tcp("fd00::100", 80), `fd00::100 ${pod6}`);
  });

  it("leave a family alone all of whose addresses are direct", async () => {
    await network.nft("delete table ip6 kip_egress\n");
    await apply("10.0.0.0/8", "::/0");
    assert.equal(await network.pod.tcp(internet, 80), `${internet} ${cell}`);
    assert.equal(await network.pod.tcp(internet6, 80), `${internet6} ${pod6}`);
  });

  it("leave what the machine itself sends, and what comes to the pod", async () => {
    assert.equal(await network.cell.tcp(internet, 80), `${internet} ${cell}`);
    assert.match(await network.others.tcp(pod, 8080), /^10\.1\.0\.2 10\.0\.0\.11$/);
    await network.others.ip(`route replace ${pod}/32 via ${cell} src ${internet}`);
    assert.equal(await network.others.tcp(pod, 8080), `${pod} ${internet}`);
  });

  it("come after the pod's policies, which see its own address and let answers pass", async () => {
    await restrict(2, { ingress: [], egress: [{ blocks: [{ cidr: `${internet}/32` }] }] });
    assert.equal(await network.pod.tcp(internet, 80), `${internet} ${cell}`);
    assert.equal(await network.pod.tcp("10.0.0.100", 80, 500), "error: timeout");
    await restrict(3, { egress: [] });
    assert.equal(await network.pod.tcp(internet, 80, 500), "error: timeout");
    await restrict(4, {});
  });

  it("are replaced at once, and open connections keep their address", async () => {
    const { id, text } = await network.pod.start({ do: "hold", host: internet, port: 80 });
    assert.equal(text, `${internet} ${cell}`);
    await apply("10.0.0.0/8", `${internet}/32`, "::/0");
    assert.equal(await network.pod.ask({ do: "echo", host: "", port: id }), "again");
    assert.equal(await network.pod.tcp(internet, 80), `${internet} ${pod}`);
  });
});
