export { assertScales } from "./assert-scales.ts";
export { EagerClock } from "./eager-clock.ts";
export { eventually, type EventuallyOptions } from "./eventually.ts";
export { freePort } from "./free-port.ts";
export { ManualClock } from "./manual-clock.ts";
export { isWholeRun, sample } from "./sample.ts";
export { SlowClock } from "./slow-clock.ts";
export { temporaryFolder, type TemporaryFolder } from "./temporary-folder.ts";

// Images and registries
export { startBusyboxRegistry } from "./images/busybox-registry.ts";
export {
  startLayoutRegistry,
  type LayoutRegistry,
  type RegistryPlace,
  type RequestHandler,
} from "./images/layout-registry.ts";
export { writeLayout, type Compression, type LayoutImage } from "./images/layout-writer.ts";
export { tar, tarEntry, tarHeader, type RawEntry } from "./images/tar-writer.ts";
export { olderVersion, unpackVersion } from "./older-version.ts";
