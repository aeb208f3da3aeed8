import assert from "node:assert/strict";
import { BlockList } from "node:net";
import { clause, type ConformanceTopic } from "../bench/conformance-case.ts";

/** The types, zones and images on offer. */
export const offers: ConformanceTopic = {
  name: "offers",
  cases: [
    clause("offers types with a size and a price", async ({ cloud, type }) => {
      const offers = await cloud.instanceTypes();
      for (const offer of offers) {
        assert.ok(offer.cpuMilli > 0 && offer.memoryBytes > 0, offer.name);
        const prices = Object.values(offer.pricePerHour);
        assert.ok(prices.length > 0 && prices.every((price) => price >= 0), offer.name);
      }
      assert.ok(offers.some(({ name }) => name === type));
    }),

    clause("finds an image by its specification, again and again", async (bench) => {
      const { cloud, options } = bench;
      const image = await cloud.resolveImage(options.imageSpec);
      assert.notEqual(image, "");
      assert.equal(await (await bench.open()).resolveImage(options.imageSpec), image);
    }),

    clause("gives instances addresses of the network it names", async (bench) => {
      const { managementIp = "", podIp = "" } = await bench.running();
      const network = new BlockList();
      for (const cidr of (await bench.cloud.networkFacts()).cidrs) {
        const [address = "", length = ""] = cidr.split("/");
        network.addSubnet(address, Number(length), address.includes(":") ? "ipv6" : "ipv4");
      }
      assert.ok(network.check(managementIp), managementIp);
      assert.ok(network.check(podIp), podIp);
    }),
  ],
};
