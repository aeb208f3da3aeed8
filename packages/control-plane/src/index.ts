export { obtainCoredns, type ObtainCorednsOptions } from "./binaries/obtain-coredns.ts";
export {
  obtainSpecPrograms,
  type ObtainSpecProgramsOptions,
  type SpecProgramName,
} from "./binaries/obtain-spec-programs.ts";
export { obtainBinaries, type ObtainOptions } from "./binaries/obtain-binaries.ts";
export { ReleaseSites, type ReleaseSitesOptions } from "./binaries/release-sites.ts";
export {
  binariesIn,
  findRelease,
  newest,
  pinned,
  programNames,
  type Binaries,
  type PinnedRelease,
  type ProgramName,
} from "./binaries/pinned-version.ts";
export { ControlPlaneError, type ControlPlaneErrorCode } from "./errors.ts";
export type { ControlPlane, ControlPlaneOptions, ProgramExit } from "./options/control-plane.ts";
export {
  mergeKubeconfigContext,
  removeKubeconfigContext,
  type KubeconfigContextOptions,
  type RemoveContextOptions,
} from "./kubeconfig/user-context.ts";
export { forwardConnections, type ForwardOptions } from "./processes/forward.ts";
export { LimitedLog } from "./processes/limited-log.ts";
export {
  SupervisedProgram,
  type ProgramEnd,
  type ProgramSpec,
} from "./processes/supervised-program.ts";
export { requireFreePort } from "./processes/ports.ts";
export { startControlPlane } from "./start/start-control-plane.ts";
export { kipRoles, leaseNamespace, type KipRoles, type PolicyRule } from "./start/rbac.ts";
