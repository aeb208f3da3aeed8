import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { describe, it } from "node:test";
import { CloudError } from "@kip/cloud";
import { planIpv6 } from "./ipv6-plan.ts";
import { requireIpv6 } from "./ipv6-setup.ts";

describe("requireIpv6()", () => {
  const plan = planIpv6("fd6b:6970::/64");
  const refusal = async (folder: string): Promise<CloudError | undefined> => {
    try {
      await requireIpv6(plan, folder);
      return undefined;
    } catch (error) {
      if (CloudError.is(error, "CLOUD_INVALID_REQUEST")) return error;
      throw error;
    }
  };

  it("says what to do where the kernel has no IPv6, or it is switched off", async () => {
    const folder = await mkdtemp(path.join(os.tmpdir(), "kip-ipv6-"));
    try {
      const absent = await refusal(path.join(folder, "none"));
      assert.match(absent?.message ?? "", /"fd6b:6970::\/64": this computer's kernel has no IPv6$/);
      assert.match(absent?.remedy ?? "", /ipv6\.disable=1, or give a range of IPv4 alone$/);
      await mkdir(path.join(folder, "conf/all"), { recursive: true });
      await writeFile(path.join(folder, "conf/all/disable_ipv6"), "1\n");
      const off = await refusal(folder);
      assert.match(off?.message ?? "", /IPv6 is switched off on this computer$/);
      assert.match(off?.remedy ?? "", /sysctl -w net\.ipv6\.conf\.all\.disable_ipv6=0/);
      await writeFile(path.join(folder, "conf/all/disable_ipv6"), "0\n");
      assert.equal(await refusal(folder), undefined);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
