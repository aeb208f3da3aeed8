import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { access } from "node:fs/promises";
import { describe, it } from "node:test";
import {
  controlGroupPath,
  confined,
  makeControlGroup,
  removeControlGroup,
} from "../src/host/control-group.ts";
import { endProcessGroup, findProcesses, type ProcessGroup } from "../src/host/processes.ts";
import { programFile } from "./support/program-file.ts";

const uid = 2_130_000_001;
const linger = programFile("linger.pl");
const argument = "/nowhere/kip-processes-test/qemu.pid";

/** Evasions that a QEMU could try if it was broken into, as modes of `linger.pl`. */
const evasions: Readonly<Record<string, string>> = {
  "obeys no signal": "ignore SIGTERM",
  "has changed its arguments": "change arguments",
  "has forked": "fork",
  "has forked twice and left": "fork twice and leave",
  "ends its first thread": "end the first thread",
};

describe("endProcessGroup()", { timeout: 60_000 }, () => {
  for (const hasControlGroup of [true, false]) {
    const where = hasControlGroup ? "in a control group" : "without a control group";
    for (const [what, way] of Object.entries(evasions)) {
      it(`ends a program ${where} that ${what}`, async (context) => {
        const group = await startGroup(way, hasControlGroup);
        if (!group) return context.skip("no control groups of version 2");
        assert.notDeepEqual(await findProcesses(group), []);
        await endProcessGroup(group, 50);
        assert.deepEqual(await findProcesses(group), []);
        if (group.controlGroup !== undefined) await assert.rejects(access(group.controlGroup));
        return undefined;
      });
    }
  }

  it("ends a program in a control group that is another process each millisecond", async (context) => {
    const group = await startGroup("fork all the time", true);
    if (!group) return context.skip("no control groups of version 2");
    await endProcessGroup(group, 50);
    assert.deepEqual(await findProcesses(group), []);
    return undefined;
  });

  it("leaves others alone that have the argument, but are neither root's nor the user's", async () => {
    const become = [`--reuid=${uid + 1}`, "--clear-groups"];
    const other = spawn("setpriv", [...become, "perl", linger, "stay", argument]);
    try {
      await once(other.stdout, "data");
      await endProcessGroup({ argument, uid }, 50);
      assert.equal(other.signalCode, null);
      assert.deepEqual(await findProcesses(argument), [other.pid]);
    } finally {
      await endProcessGroup({ argument, uid: uid + 1 }, 50);
    }
  });

  it("ends what is root's still and has the argument", async () => {
    const root = spawn("perl", [linger, "stay", argument]);
    await once(root.stdout, "data");
    await endProcessGroup({ argument, uid }, 50);
    assert.notEqual(root.signalCode ?? (await once(root, "exit")), null);
  });

  it("refuses a user that may be an account", async () => {
    await assert.rejects(endProcessGroup({ argument, uid: 33 }, 50), RangeError);
  });
});

/** Starts a program as the user with the argument. Undefined if it should have a control group and cannot. */
async function startGroup(
  way: string,
  hasControlGroup: boolean,
): Promise<ProcessGroup | undefined> {
  const controlGroup = hasControlGroup ? await controlGroupPath("kip-processes-test") : undefined;
  if (hasControlGroup) {
    if (controlGroup === undefined) return undefined;
    await removeControlGroup(controlGroup);
    if (!(await makeControlGroup(controlGroup))) return undefined;
  }
  const [program, ...args] = [
    ...confined(controlGroup),
    "setpriv",
    `--reuid=${uid}`,
    "--clear-groups",
    "--bounding-set=-all",
    "--no-new-privs",
    "perl",
    linger,
    way,
    argument,
  ];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], detached: true });
  await once(child.stdout, "data");
  child.stdout.destroy();
  return { argument, uid, controlGroup };
}
