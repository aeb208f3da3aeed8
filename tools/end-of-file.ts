// Loaded before each test file: ends its process, as failed, where something of its tests keeps it running. The time
// limits of node:test are those of tests; a process that does not end would be waited for without an end.
import path from "node:path";
import { after } from "node:test";

/** Of what ends by itself once the tests are through, such as connections being closed, milliseconds. */
const graceMs = Number(process.env["KIP_TEST_GRACE_MS"] ?? 30_000);

// Programs that a test starts by fork() are given this file, too.
if (/\.test\.m?[jt]s$/.test(process.argv[1] ?? ""))
  after(() => {
    const end = (): void => {
      const file = path.relative(process.cwd(), process.argv[1] ?? "");
      const open = process.getActiveResourcesInfo().join(", ");
      console.error(`${file} still runs ${graceMs / 1000} s after its tests, by: ${open}`);
      process.exit(1);
    };
    setTimeout(end, graceMs).unref();
  });
