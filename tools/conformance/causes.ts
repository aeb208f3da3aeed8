import type { Remark } from "./not-askable.ts";

/** Why specs fail that are known to; shown on the page in the place of the spec's own message. */
export const causes: readonly Remark[] = [];
