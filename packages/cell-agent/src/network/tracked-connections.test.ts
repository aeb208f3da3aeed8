import assert from "node:assert/strict";
import { mkdtempDisposableSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, it } from "node:test";
import { followConnections } from "./tracked-connections.ts";

const names = ["max", "buckets", "tcp_timeout_close_wait", "tcp_be_liberal"] as const;
const GiB = 2 ** 30;

/** The kernel's settings, which were these before. */
function settings(own: readonly number[], memoryBytes: number, cores: number): readonly number[] {
  using folder = mkdtempDisposableSync(path.join(tmpdir(), "kip-tracking-"));
  const fileOf = (name: string): string => path.join(folder.path, `nf_conntrack_${name}`);
  for (const [i, name] of names.entries()) writeFileSync(fileOf(name), `${own[i]}\n`);
  followConnections({ memoryBytes, cores, folder: folder.path });
  return names.map((name) => Number(readFileSync(fileOf(name), "utf8")));
}

describe("followConnections()", () => {
  it("follows as many connections as kube-proxy, and half-closed ones for an hour", () => {
    assert.deepEqual(settings([8192, 8192, 60, 0], GiB, 2), [131_072, 32_768, 3600, 1]);
    assert.deepEqual(settings([65_536, 65_536, 60, 0], 16 * GiB, 8), [262_144, 65_536, 3600, 1]);
  });

  it("leaves a small machine its memory", () => {
    assert.deepEqual(settings([2048, 2048, 60, 0], GiB / 4, 1), [32_768, 8192, 3600, 1]);
  });

  it("lowers nothing", () => {
    const own = [262_144, 262_144, 7200, 1];
    assert.deepEqual(settings(own, 4 * GiB, 2), own);
  });
});
