import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sysctlFile } from "./sysctls.ts";

describe("sysctlFile()", () => {
  it("takes dots or slashes for separators, whichever comes first", () => {
    const names = [
      "net.ipv4.tcp_syncookies",
      "kernel/shm_rmid_forced",
      "net/ipv4/conf/eth0.1/x",
      "net.ipv4.conf.eth0/1.x",
    ];
    assert.deepEqual(names.map(sysctlFile), [
      "/proc/sys/net/ipv4/tcp_syncookies",
      "/proc/sys/kernel/shm_rmid_forced",
      "/proc/sys/net/ipv4/conf/eth0.1/x",
      "/proc/sys/net/ipv4/conf/eth0.1/x",
    ]);
  });
});
