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

const uid = 2_130_000_001;
const argument = "/nowhere/kip-processes-test/qemu.pid";

const idle = `$| = 1; print "ready\\n"; sleep 1000 while 1;`;
/** What a QEMU that was broken into could do; each says "ready" when it is done. */
const evasions: Readonly<Record<string, string>> = {
  "obeys no signal": `$SIG{TERM} = "IGNORE"; print "ready\\n"; sleep 1000 while 1;`,
  "has changed its arguments": `$0 = "other"; print "ready\\n"; sleep 1000 while 1;`,
  "has forked": `$0 = "other"; fork; print "ready\\n"; sleep 1000 while 1;`,
  "has forked twice and left": `$0 = "other"; exit if fork; setpgrp; exit if fork; print "ready\\n"; sleep 1000 while 1;`,
  "ends its first thread": `use threads; $0 = "other"; threads->create(sub { print "ready\\n"; sleep 1000 while 1; }); syscall(60, 0);`,
};

/** Forks and ends, again and again: who lists it finds it gone. Ends by itself after 20 s. */
const alwaysAnother = `$0 = "other"; $SIG{CHLD} = "IGNORE"; print "ready\\n"; my $end = time + 20;
  while (time < $end) { exit if fork; select(undef, undef, undef, 0.0005); }`;

describe("endProcessGroup()", { timeout: 60_000 }, () => {
  for (const hasControlGroup of [true, false]) {
    const where = hasControlGroup ? "in a control group" : "without a control group";
    for (const [what, script] of Object.entries(evasions)) {
      it(`ends a program ${where} that ${what}`, async (context) => {
        const group = await startGroup(script, hasControlGroup);
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
    const group = await startGroup(alwaysAnother, true);
    if (!group) return context.skip("no control groups of version 2");
    await endProcessGroup(group, 50);
    assert.deepEqual(await findProcesses(group), []);
    return undefined;
  });

  it("leaves others alone that have the argument, but are neither root's nor the user's", async () => {
    const become = [`--reuid=${uid + 1}`, "--clear-groups"];
    const other = spawn("setpriv", [...become, "perl", "-e", idle, argument]);
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
    const root = spawn("perl", ["-e", idle, argument]);
    await once(root.stdout, "data");
    await endProcessGroup({ argument, uid }, 50);
    assert.notEqual(root.signalCode ?? (await once(root, "exit")), null);
  });

  it("refuses a user that may be an account", async () => {
    await assert.rejects(endProcessGroup({ argument, uid: 33 }, 50), RangeError);
  });
});

/** Starts a program as the user, with the argument; undefined if it was to have a control group and cannot. */
async function startGroup(
  script: string,
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
    "-e",
    `$| = 1; ${script}`,
    argument,
  ];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], detached: true });
  await once(child.stdout, "data");
  child.stdout.destroy();
  return { argument, uid, controlGroup };
}
