import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, describe, it } from "node:test";
import { findProcesses } from "../src/host/processes.ts";
import { machineRequest } from "./support/machine-request.ts";
import { prepareTestCloud } from "./support/test-cloud.ts";

const name = "kiptenv";
const test = await prepareTestCloud(name, 10);
after(() => test.remove());

/** Names of the variables that a process was started with. */
async function variablesOf(argument: string): Promise<readonly string[]> {
  const [pid = assert.fail(`no process has ${argument}`)] = await findProcesses(argument);
  const text = await readFile(`/proc/${pid}/environ`, "utf8");
  return text.split("\0").flatMap((line) => (line === "" ? [] : [line.split("=")[0] ?? ""]));
}

describe("programs that guests may break into", { timeout: 120_000 }, () => {
  it("have nothing of kip's environment but PATH", async () => {
    process.env["KIP_TEST_SECRET"] = "s3cret";
    await using cloud = await test.open({ internet: "auto" });
    await cloud.prepareNetwork();
    const { id } = await cloud.launch(machineRequest());
    const pidFile = `${test.options.stateDir}/machines/${id}/qemu.pid`;
    assert.deepEqual(await variablesOf(pidFile), ["PATH"], "QEMU");
    if ((await cloud.networkFacts()).nameservers.length > 0)
      assert.deepEqual(await variablesOf(`/run/kip/${name}/netns`), ["PATH"], "slirp4netns");
    await cloud.terminate(id);
  });
});
