export {
  cellFinalizer,
  startPhases,
  type Cell,
  type CellPhase,
  type CellSpec,
  type CellStatus,
} from "./state/cell.ts";
export { readCellCloudInit, type FileNote } from "./config/cell-cloud-init.ts";
export { changedKeys, type ChangedKey } from "./config/changed-keys.ts";
export { pathText, type KeyNote } from "./config/keys/read-keys.ts";
export {
  checkProviderConfig,
  decodeProviderConfig,
  type CheckedConfig,
  type ProviderConfig,
} from "./config/provider-config.ts";
export { cleanUpInTurn, type CleanUpInTurnOptions } from "./cleanup/clean-up-in-turn.ts";
export {
  findLeftOvers,
  type Installation,
  type LeftOvers,
  type OwnedInstance,
} from "./cleanup/left-overs.ts";
export {
  uninstallNode,
  type Uninstalled,
  type UninstallOptions,
} from "./uninstall/uninstall-node.ts";
export { KipProvider } from "./provider.ts";
export { findClusterDns, installCells, readClusterID } from "./cluster-facts.ts";
export { CurrentTerm } from "./replicas/current-term.ts";
export { runInTurns, type TurnParts } from "./replicas/run-in-turns.ts";
export { startKip, type RunningKip } from "./start-kip.ts";
export type { StartKipOptions } from "./start-kip-options.ts";
export { cellCrd } from "./store/cell-crd.ts";
