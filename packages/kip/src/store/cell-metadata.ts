import { nodeLabel } from "../state/cell.ts";

/** Labels by key. */
export type Labels = Readonly<Record<string, string>>;

/**
 * Labels that name the tool that deployed an object. Argo CD also finds its objects by the first one, unless configured
 * otherwise.
 */
const deployerLabels: ReadonlySet<string> = new Set([
  "app.kubernetes.io/instance",
  "app.kubernetes.io/managed-by",
]);

/**
 * Domains of the labels by which deployment tools find their objects. They delete objects that they did not deploy. Such a tool
 * also labels pod templates, and would delete a Cell with the same labels, together with its machine. Subdomains also count.
 */
const deployerDomains = [
  "argocd.argoproj.io",
  "kapp.k14s.io",
  "fluxcd.io",
  "objectset.rio.cattle.io", // Rancher Fleet, and k3s
  "applyset.kubernetes.io", // kubectl apply --applyset
  "addonmanager.kubernetes.io",
];

/** The labels of a Cell: those of its pod except deployment tools' labels, overridden by those by which kip finds its Cells. */
export function cellLabels(nodeName: string, podLabels: Labels): Labels {
  const kept = Object.entries(podLabels).filter(([key]) => !isDeployerLabel(key));
  return { ...Object.fromEntries(kept), [nodeLabel]: nodeName };
}

/**
 * Annotations that keep Argo CD away from Cells if it is configured to find its objects by another label. It then neither
 * deletes a Cell, even together with its application, nor reports it as a difference.
 *
 * @see https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/
 * @see https://argo-cd.readthedocs.io/en/stable/user-guide/compare-options/
 */
export const cellAnnotations: Labels = {
  "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
  "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
};

function isDeployerLabel(key: string): boolean {
  if (deployerLabels.has(key)) return true;
  const [domain = ""] = key.split("/");
  return deployerDomains.some((each) => domain === each || domain.endsWith(`.${each}`));
}
