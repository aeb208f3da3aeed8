import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { createLogger } from "@kip/base";
import { changedKeys } from "@kip/kip";
import { temporaryFolder } from "@kip/testing";
import { KipError } from "../errors.ts";
import { ConfigFile } from "./config-file.ts";

const pool = (count: number): string =>
  `cloud:\n  local: {}\ncells:\n  standbyCells:\n    - { instanceType: t3.nano, count: ${count} }\n`;

describe("ConfigFile", () => {
  it("gives a turn what the file has when the turn begins, not when the process did", async () => {
    using opened = await openFile(pool(0));
    opened.write(pool(3));
    const { config } = await opened.file.readForTurn();
    assert.equal(config.standbyCells[0]?.count, 3);
    assert.deepEqual(opened.logged, []);
  });

  it("keeps what it had last while the file has problems or is away, and says so", async () => {
    using opened = await openFile(pool(0));
    opened.write(pool(2));
    await opened.file.read();
    opened.write(pool(-1));
    assert.equal((await opened.file.readForTurn()).config.standbyCells[0]?.count, 2);
    rmSync(opened.file.path);
    assert.equal((await opened.file.readForTurn()).config.standbyCells[0]?.count, 2);
    assert.deepEqual(
      opened.logged.map(({ msg }) => msg),
      [
        "Kept the configuration in force: the changed file has problems",
        "Could not read the configuration; kept the one in force",
      ],
    );
    assert.match(JSON.stringify(opened.logged[0]), /line 5: cells\.standbyCells\[0\]\.count/);
  });

  it("says which changed keys a turn leaves as the process started with them", async () => {
    using opened = await openFile(pool(1));
    opened.write(pool(1).replace("{}", "{ range: 10.9.0.0/16 }"));
    await opened.file.readForTurn();
    assert.deepEqual(
      opened.logged.map(({ msg, keys }) => [msg, keys]),
      [["Changed settings take effect when kip is started again", ["cloud.local.range"]]],
    );
  });

  it("has the cloud-config that the file names, and finds its changes and its mistakes", async () => {
    using folder = temporaryFolder();
    const cloudInit = path.join(folder.path, "cells.yaml");
    writeFileSync(cloudInit, "#cloud-config\nruncmd: [one]\n");
    using opened = await openFile(`cloud:\n  local: {}\ncells:\n  cloudInitFile: ${cloudInit}\n`);
    const { config, content } = opened.file.usable;
    assert.deepEqual(structuredClone(config.cloudInit), { runcmd: ["one"] });
    assert.deepEqual(opened.file.paths, [opened.file.path, cloudInit]);
    writeFileSync(cloudInit, "#cloud-config\nruncmd: [two]\n");
    const changed = await opened.file.read();
    assert.deepEqual(structuredClone(changed.config.cloudInit), { runcmd: ["two"] });
    assert.deepEqual(changedKeys(content, changed.content), [
      { path: "cells.cloudInitFile", reload: "live" },
    ]);
    writeFileSync(cloudInit, "#cloud-config\nhostname: same\n");
    assert.deepEqual((await opened.file.read()).config, changed.config);
    assert.match(JSON.stringify(opened.logged), /cells\.yaml: line 2: .*hostname/);
    rmSync(cloudInit);
    assert.deepEqual((await opened.file.read()).config, changed.config);
    assert.match(JSON.stringify(opened.logged), /line 4: cells\.cloudInitFile: .*cannot be read/);
  });

  it("refuses a process whose first file has problems", async () => {
    await assert.rejects(
      async () => {
        using _opened = await openFile(pool(-1));
      },
      (error) => KipError.is(error, "CONFIG_INVALID"),
    );
  });
});

interface Logged {
  readonly msg: string;
  readonly keys?: unknown;
}

async function openFile(text: string) {
  using stack = new DisposableStack();
  const folder = stack.use(temporaryFolder());
  const at = path.join(folder.path, "provider.yaml");
  const write = (changed: string): void => writeFileSync(at, changed);
  const logged: Logged[] = [];
  const logger = createLogger({
    level: "info",
    write: (line) => void logged.push(JSON.parse(line) as Logged),
  });
  write(text);
  const file = await ConfigFile.open(at, logger);
  const owned = stack.move();
  return { file, write, logged, [Symbol.dispose]: () => owned.dispose() };
}
