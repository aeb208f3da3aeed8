export { obtainHelm, type ObtainHelmOptions } from "../binaries/obtain-helm.ts";
export {
  endSharedControlPlane,
  sharedControlPlane,
  type SharedControlPlane,
  type SharedControlPlaneOptions,
} from "./shared-control-plane.ts";
export { openTestRun } from "./test-run.ts";
export { tokenKubeconfig } from "./token-kubeconfig.ts";
