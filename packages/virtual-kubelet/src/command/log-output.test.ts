import assert from "node:assert/strict";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, describe, it } from "node:test";
import { parseOptions, type LogLevel } from "@kip/base";
import { withKlogNames } from "./klog-flags.ts";
import { openLogOutput } from "./log-output.ts";
import { commandOptions } from "./command-options.ts";

const table = commandOptions({ certificate: "", logFormat: "text", metrics: ":10255" });

const folder = mkdtempSync(path.join(tmpdir(), "vk-log-"));
after(() => rmSync(folder, { recursive: true }));

const levels: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** The printed lines for one message of each level, with these flags. */
function printed(...args: readonly string[]): readonly string[] {
  const seen: string[] = [];
  const options = parseOptions(table, withKlogNames(args), {});
  using output = openLogOutput(options, (line) => seen.push(line));
  for (const level of levels) output.write(`a ${level}`, level);
  return seen;
}

describe("openLogOutput()", () => {
  const file = path.join(folder, "log");
  const toFile = ["--logtostderr=false", `--log_file=${file}`] as const;
  const all = levels.map((level) => `a ${level}`);
  const cases: readonly (readonly [string, readonly string[], readonly string[]])[] = [
    ["everything without a flag", [], all],
    ["everything with --logtostderr, whatever else", ["--log_file=/nowhere/log"], all],
    ["errors beside a file", toFile, ["a error"]],
    ["warnings too, if asked to", [...toFile, "--stderrthreshold=1"], ["a warn", "a error"]],
    ["everything with --alsologtostderr", [...toFile, "--alsologtostderr"], all],
    [
      "less with its threshold",
      [...toFile, "--alsologtostderr", "--alsologtostderrthreshold=ERROR"],
      ["a error"],
    ],
  ];
  for (const [name, args, expected] of cases)
    it(`prints ${name}`, () => assert.deepEqual(printed(...args), expected));

  it("writes the file, which starts again at its size", () => {
    rmSync(file, { force: true });
    printed(...toFile);
    assert.equal(readFileSync(file, "utf8"), `${all.join("\n")}\n`);
    const options = parseOptions(table, withKlogNames([...toFile, "--log_file_max_size=1"]), {});
    using output = openLogOutput(options, () => {});
    for (let count = 0; count < 6; count++) output.write("x".repeat(200_000), "info");
    assert.equal(readFileSync(file, "utf8").length, 400_002);
    assert.match(readFileSync(`${file}.1`, "utf8"), /^a debug\n/);
  });

  it("names its file by directory", () => {
    printed("--logtostderr=false", `--log_dir=${folder}`);
    assert.match(readFileSync(path.join(folder, "virtual-kubelet.log"), "utf8"), /a error/);
  });

  it("goes on on standard error while the file cannot be written", () => {
    assert.deepEqual(printed("--logtostderr=false", "--log_file=/dev/full"), [
      'Could not write the log file "/dev/full": ENOSPC: no space left on device, write',
      ...all,
    ]);
  });

  it("goes on on standard error when the full file cannot be moved", () => {
    const full = path.join(folder, "cannot-move");
    mkdirSync(`${full}.1`);
    const seen: string[] = [];
    const args = ["--logtostderr=false", `--log_file=${full}`, "--log_file_max_size=1"];
    const options = parseOptions(table, withKlogNames(args), {});
    using output = openLogOutput(options, (line) => seen.push(line));
    for (let count = 0; count < 6; count++) output.write("x".repeat(200_000), "info");
    assert.match(seen[0] ?? "", /^Could not write the log file .*EISDIR/);
    rmdirSync(`${full}.1`);
    output.write("y".repeat(200_000), "info");
    assert.equal(readFileSync(full, "utf8").length, 200_001);
  });

  it("does not follow a symbolic link by the name that it chose itself", () => {
    const shared = path.join(folder, "shared");
    const victim = path.join(folder, "victim");
    mkdirSync(shared);
    symlinkSync(victim, path.join(shared, "virtual-kubelet.log"));
    assert.throws(
      () => printed("--logtostderr=false", `--log_dir=${shared}`),
      /Cannot write the log file/,
    );
    assert.equal(existsSync(victim), false);
  });

  it("refuses what it cannot read or write", () => {
    assert.throws(() => printed(...toFile, "--stderrthreshold=LOUD"), /INFO, WARNING, ERROR/);
    assert.throws(
      () => printed("--logtostderr=false", "--log_file=/nowhere/log"),
      /Cannot write the log file/,
    );
  });
});
