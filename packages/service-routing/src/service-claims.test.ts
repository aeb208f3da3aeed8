import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceView } from "@kip/network-view";
import { ServiceClaims } from "./service-claims.ts";
import { Services, type ServiceChanges } from "./services.ts";
import { rebuilt, resultOf } from "./testing/steps.ts";

const place = {
  podAddresses: ["10.1.0.2"],
  nodeAddresses: [],
  serviceRanges: [],
} as const;

function of(address: string, nodePort: number): ServiceView {
  const endpoints = [`${address}:8080`];
  const port = { name: "", protocol: "TCP", port: 80, nodePort, endpoints } as const;
  return { clusterIps: [address], ports: [port] };
}

/** What maps of NodePorts have, from the commands of nft; throws for what nft refuses. */
function nodePorts(texts: Iterable<string>, known = new Map<string, string>()) {
  for (const line of [...texts].join("").split("\n")) {
    const [, verb, list] =
      /^(add|delete) element ip kip_services_[ab] nodeports \{ (.*) \}$/.exec(line) ?? [];
    for (const element of list?.split(", ") ?? []) {
      const [key = "", value = ""] = element.split(" : ");
      const is = known.get(key);
      assert.equal(verb === "add" ? is === undefined || is === value : is !== undefined, true);
      if (verb === "add") known.set(key, value);
      else known.delete(key);
    }
  }
  return known;
}

describe("ServiceClaims", () => {
  it("never lets two Services write one element, in whatever parts their changes arrive", () => {
    const services = new Services(place);
    let random = 1;
    const next = (below: number): number => {
      random = (random * 48_271) % 2_147_483_647;
      return random % below;
    };
    const known = new Map<string, string>();
    const wanted = new Map<string, ServiceView>();
    for (let step = 0; step < 2000; step++) {
      const changes = Array.from({ length: 1 + next(3) }, () => {
        const name = next(5);
        const view = next(4) === 0 ? undefined : of(`10.96.0.${name}`, 30_000 + next(3));
        return [`ns/${name}`, view] as const;
      });
      const change: ServiceChanges = new Map(changes);
      for (const [key, view] of change) {
        if (view) wanted.set(key, view);
        else wanted.delete(key);
      }
      nodePorts(resultOf(services.change(change)).texts, known);
      const ports = new Set(
        [...wanted.values()].map(({ ports: [port] }) => `tcp . ${port?.nodePort}`),
      );
      assert.deepEqual(new Set(known.keys()), ports);
      assert.deepEqual(nodePorts(rebuilt(services, services.table)), known);
    }
  });
});

describe("ServiceClaims", () => {
  it("does not let a Service wait for an element that it has", () => {
    const claims = new ServiceClaims();
    const [none, one] = [new Set<string>(), new Set(["10.96.0.1"])];
    claims.replace("ns/a", none, one);
    assert.deepEqual(claims.replace("ns/a", none, one), none); // as after a failure
    claims.replace("ns/a", one, none);
    assert.deepEqual(claims.replace("ns/b", none, one), none);
  });
});
