/**
 * The layer of each workspace. Imports are only allowed from lower layers, by package name. Packages of the same layer cannot
 * import each other.
 */
export const layers: Readonly<Record<string, number>> = {
  "@kip/base": 0,
  "@kip/k8s-types": 1,
  "@kip/pki": 1,
  "@kip/oci-image": 1,
  "@kip/oci-runtime": 1,
  "@kip/cloud-init": 1,
  "@kip/instance-types": 1,
  "@kip/reconcile": 1,
  "@kip/testing": 1,
  "@kip/network-view": 1,
  "@kip/cloud": 2,
  "@kip/k8s-client": 2,
  "@kip/agent-api": 2,
  "@kip/service-routing": 2,
  "@kip/cloud-aws": 3,
  "@kip/cloud-local": 3,
  "@kip/control-plane": 3,
  "@kip/cluster-network": 3,
  "@kip/virtual-kubelet": 3,
  "@kip/cell-agent": 3,
  "@kip/cell-image": 4,
  "@kip/kip": 4,
  "@kip/app-kip": 5,
  "@kip/app-kipctl": 5,
  "@kip/app-itzo": 5,
  "@kip/app-tosi": 5,
  "@kip/app-virtual-kubelet": 5,
};

/** Workspaces that run on a cell as root, and so have no dependencies from outside the repository. */
export const withoutDependencies: readonly string[] = [
  "@kip/base",
  "@kip/agent-api",
  "@kip/network-view",
  "@kip/service-routing",
  "@kip/cell-agent",
  "@kip/oci-image",
  "@kip/oci-runtime",
  "@kip/cloud-init",
  "@kip/app-itzo",
  "@kip/app-tosi",
];
