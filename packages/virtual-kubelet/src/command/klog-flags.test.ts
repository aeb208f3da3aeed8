import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseOptions, uselessOptions, type OptionValues } from "@kip/base";
import { withKlogNames } from "./klog-flags.ts";
import { verboseLevel } from "./log-output.ts";
import { commandOptions } from "./command-options.ts";

const table = commandOptions({ certificate: "", logFormat: "text", metrics: ":10255" });

function read(...args: readonly string[]): OptionValues {
  return parseOptions(table, withKlogNames(args), {});
}

describe("withKlogNames()", () => {
  it("are taken with and without prefix, in both spellings", () => {
    for (const args of [
      ["-v=4"],
      ["-v", "4"],
      ["--v=4"],
      ["--klog.v=4"],
      ["--klog.v", "4"],
    ] as const)
      assert.equal(read(...args).text("klog.v"), "4", args.join(" "));
    for (const flag of ["--log-file", "--log_file", "--klog.log_file", "-log_file"])
      assert.equal(read(`${flag}=/x`).text("klog.log_file"), "/x", flag);
    assert.equal(read("--logtostderr=false").isSet("klog.logtostderr"), false);
    assert.equal(read("--alsologtostderr").isSet("klog.alsologtostderr"), true);
    assert.equal(read("--log-level=warn", "--nodename=v").text("nodename"), "v");
  });

  it("all have a place in the table, of each version of klog", () => {
    const all =
      "add_dir_header alsologtostderr alsologtostderrthreshold legacy_stderr_threshold_behavior log_backtrace_at log_dir log_file log_file_max_size logtostderr one_output skip_headers skip_log_headers stderrthreshold v vmodule";
    const ours = table.map(({ flag }) => flag).filter((flag) => flag.startsWith("klog."));
    assert.deepEqual(ours.map((flag) => flag.replace("klog.", "")).sort(), all.split(" "));
  });

  it("make the log more verbose, never less", () => {
    const cases = [
      ["info", [], "info"],
      ["info", ["-v=2"], "info"],
      ["info", ["-v=4"], "debug"],
      ["warn", ["-v=9"], "trace"],
      ["trace", ["-v=4"], "trace"],
    ] as const;
    for (const [level, args, expected] of cases)
      assert.equal(verboseLevel(level, read(...args)), expected);
    assert.throws(() => verboseLevel("info", read("-v=loud")), /whole number/);
  });

  it("say in a sentence that they have no effect where they have none", () => {
    assert.deepEqual(uselessOptions(table, read("--klog.log_dir=/x")), []);
    assert.deepEqual(uselessOptions(table, read("--vmodule=pod*=4", "--namespace=a")), [
      "--namespace is deprecated and has no effect: the node runs the pods of all namespaces that are bound to it. Keep others off with its taint",
      "--klog.vmodule is deprecated and has no effect: there are no Go files whose verbosity could differ. Use --klog.v",
    ]);
  });
});
