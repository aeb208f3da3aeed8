import { nodeLabel } from "../state/cell.ts";

/** Labels by key. */
export type Labels = Readonly<Record<string, string>>;

/** Labels that say which tool deploys an object; the first is also what Argo CD finds its objects by, unless it is configured. */
const deployerLabels: ReadonlySet<string> = new Set([
  "app.kubernetes.io/instance",
  "app.kubernetes.io/managed-by",
]);

/**
 * Tools that find what they deployed by their own labels, and delete what they did not: they put them into the templates of pods
 * too, and a Cell with them would be deleted, and its machine with it. Their subdomains count too.
 */
const deployerDomains = [
  "argocd.argoproj.io",
  "kapp.k14s.io",
  "fluxcd.io",
  "objectset.rio.cattle.io", // Rancher Fleet, and k3s
  "applyset.kubernetes.io", // kubectl apply --applyset
  "addonmanager.kubernetes.io",
];

/** The labels of a Cell: those of its pod that no tool deletes it by, and above them those that kip finds its Cells by. */
export function cellLabels(nodeName: string, podLabels: Labels): Labels {
  const kept = Object.entries(podLabels).filter(([key]) => !isDeployerLabel(key));
  return { ...Object.fromEntries(kept), [nodeLabel]: nodeName };
}

/**
 * Keeps a Cell from Argo CD where that finds its objects by a label of the user's choice: it deletes no Cell that its application
 * does not have, nor with the application, and does not count it as a difference.
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
