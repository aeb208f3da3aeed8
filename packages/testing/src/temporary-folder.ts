import { mkdtempDisposableSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** A folder of a test. */
export interface TemporaryFolder extends Disposable {
  readonly path: string;
  /** Removes the folder and its content. For `after()`, where `using` is not possible. */
  remove(): void;
}

/** Creates an empty folder for a test, below the system's folder for temporary files. */
export function temporaryFolder(): TemporaryFolder {
  return mkdtempDisposableSync(path.join(tmpdir(), "kip-test-"));
}
