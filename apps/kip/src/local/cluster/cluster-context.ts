import type { Logger, OptionValues } from "@kip/base";
import type { LocalLayout } from "./layout.ts";

/** Data that the phases of a start share. */
export interface ClusterContext {
  readonly options: OptionValues;
  readonly layout: LocalLayout;
  readonly logger: Logger;
  /** Cancels the start. */
  readonly signal: AbortSignal;
  /** Reports a phase that takes time to `kip up`. */
  readonly onProgress: (text: string) => void;
}
