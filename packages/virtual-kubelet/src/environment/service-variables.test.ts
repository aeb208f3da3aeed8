import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Service } from "@kip/k8s-types";
import { serviceVariables } from "./service-variables.ts";

function service(namespace: string, name: string, clusterIP: string, port = 80): Service {
  return {
    metadata: { namespace, name, uid: `u-${name}`, resourceVersion: "1" },
    spec: {
      clusterIP,
      ports: [
        { name: "web-ui", port },
        { port: 53, protocol: "UDP" },
      ],
    },
  };
}

const kubernetes: Service = {
  metadata: { namespace: "default", name: "kubernetes", uid: "u", resourceVersion: "1" },
  spec: { clusterIP: "10.0.0.1", ports: [{ name: "https", port: 443, protocol: "TCP" }] },
};

const all = [
  kubernetes,
  service("team", "my-db", "10.0.0.7"),
  service("other", "theirs", "10.0.0.8"),
  service("team", "headless", "None"),
  service("team", "external", ""),
];

const ofKubernetes = {
  KUBERNETES_SERVICE_HOST: "10.0.0.1",
  KUBERNETES_SERVICE_PORT: "443",
  KUBERNETES_SERVICE_PORT_HTTPS: "443",
  KUBERNETES_PORT: "tcp://10.0.0.1:443",
  KUBERNETES_PORT_443_TCP: "tcp://10.0.0.1:443",
  KUBERNETES_PORT_443_TCP_PROTO: "tcp",
  KUBERNETES_PORT_443_TCP_PORT: "443",
  KUBERNETES_PORT_443_TCP_ADDR: "10.0.0.1",
};

describe("serviceVariables() (V9)", () => {
  it("without service links has only the variables of the API server", () => {
    assert.deepEqual(Object.fromEntries(serviceVariables(all, "team", false)), ofKubernetes);
  });

  it("with service links has the services of its own namespace only", () => {
    assert.deepEqual(Object.fromEntries(serviceVariables(all, "team", true)), {
      ...ofKubernetes,
      MY_DB_SERVICE_HOST: "10.0.0.7",
      MY_DB_SERVICE_PORT: "80",
      MY_DB_SERVICE_PORT_WEB_UI: "80",
      MY_DB_PORT: "tcp://10.0.0.7:80",
      MY_DB_PORT_80_TCP: "tcp://10.0.0.7:80",
      MY_DB_PORT_80_TCP_PROTO: "tcp",
      MY_DB_PORT_80_TCP_PORT: "80",
      MY_DB_PORT_80_TCP_ADDR: "10.0.0.7",
      MY_DB_PORT_53_UDP: "udp://10.0.0.7:53",
      MY_DB_PORT_53_UDP_PROTO: "udp",
      MY_DB_PORT_53_UDP_PORT: "53",
      MY_DB_PORT_53_UDP_ADDR: "10.0.0.7",
    });
  });

  it("prefers the namespace's own service named kubernetes, and writes IPv6 addresses in brackets", () => {
    const own = service("team", "kubernetes", "fd00::1", 8443);
    const variables = serviceVariables([own, kubernetes], "team", true);
    assert.equal(variables.get("KUBERNETES_PORT"), "tcp://[fd00::1]:8443");
    const without = serviceVariables([own, kubernetes], "team", false);
    assert.equal(without.get("KUBERNETES_SERVICE_HOST"), "10.0.0.1");
  });

  const large = (name: string, count: number): Service => {
    const ports = Array.from({ length: count }, (_, at) => ({ name: `p${at}`, port: at + 1 }));
    const { metadata } = service("team", name, "");
    return { metadata, spec: { clusterIP: "10.0.0.9", ports } };
  };

  it("makes none for services with more ports than any pod could have variables of", () => {
    const services = [large("a", 20_000), large("b", 32_000)];
    assert.throws(() => serviceVariables(services, "team", true), { code: "VK_UNRESOLVED" });
    assert.equal(serviceVariables([kubernetes, ...services], "team", false).size, 8);
  });

  it("takes memory for the variables of a service once, and not for each pod", () => {
    const one = large("a", 20_000);
    assert.equal(serviceVariables([one], "team", true).size, 100_003);
    const before = process.threadCpuUsage().user;
    for (let pod = 0; pod < 5; pod++) serviceVariables([one], "team", true);
    const again = process.threadCpuUsage().user - before;
    assert.ok(again < 500_000, `${again} µs`);
  });
});
