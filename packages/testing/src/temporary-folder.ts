import { mkdtempDisposableSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** A folder of a test. */
export interface TemporaryFolder extends Disposable {
  readonly path: string;
  /** Removes it with all that is in it; for `after()`, where `using` cannot be written. */
  remove(): void;
}

/** Makes an empty folder for a test, below the system's folder for temporary files. */
export function temporaryFolder(): TemporaryFolder {
  return mkdtempDisposableSync(path.join(tmpdir(), "kip-test-"));
}
