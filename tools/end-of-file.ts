// Loaded before each test file. If something in its tests keeps the process running, this ends the process as failed. node:test
// only has time limits for tests, so it would wait for such a process indefinitely.
import path from "node:path";
import { after } from "node:test";

/** Time for everything that ends by itself after the tests, such as closing connections, milliseconds. */
const graceMs = Number(process.env["KIP_TEST_GRACE_MS"] ?? 30_000);

// Programs that a test starts by fork() also load this file.
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
