import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findCollision } from "./collision.ts";

const routes = `default via 192.0.2.1 dev eth0
0.0.0.0/1 via 10.8.0.1 dev tun0
10.8.0.1 dev tun0 proto kernel scope link
172.16.0.0/12 via 192.0.2.7 dev eth0
192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2
198.18.0.0/15 dev kip0 proto kernel scope link src 198.18.0.1 
`;

describe("findCollision()", () => {
  const collisionOf = async (range: string) => await findCollision(routes, range, "kip0");

  it("finds none beside default routes, halves of the internet and our own", async () => {
    assert.equal(await collisionOf("198.18.0.0/15"), undefined);
  });

  it("finds a route inside the range, around it, and one address of it", async () => {
    assert.match((await collisionOf("192.0.0.0/16")) ?? "", /^192\.0\.2\.0\/24 dev eth0/);
    assert.match((await collisionOf("172.20.0.0/16")) ?? "", /^172\.16\.0\.0\/12 via/);
    assert.match((await collisionOf("10.8.0.0/16")) ?? "", /^10\.8\.0\.1 dev tun0/);
  });
});
