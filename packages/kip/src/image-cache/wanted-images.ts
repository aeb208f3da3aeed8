import { defined } from "@kip/base";
import type { Container, ContainerStatus, Pod } from "@kip/k8s-types";
import { formatReference, parseReference, type Reference } from "@kip/oci-image";
import { pulledImages } from "../dispatch/desired-pod.ts";

/** An image that the cache should have. */
export interface WantedImage {
  readonly reference: Reference;
  /** Namespaces of the pods that name the image, sorted. {@link listNamespace} for the list. */
  readonly namespaces: readonly string[];
  /** `<namespace>/<name>` of pull secrets of pods that name the image, sorted, at most {@link maxSecrets}. */
  readonly pullSecrets: readonly string[];
}

/** The images that pods and a list request. */
export interface Wanted {
  /** By the full text of their references. */
  readonly images: ReadonlyMap<string, WantedImage>;
  /** Images that containers run, by digest. Their tags may refer to other images by now. */
  readonly running: readonly Reference[];
  /** Invalid image names in the list. Those of pods are reported by the cell's agent. */
  readonly invalid: readonly string[];
}

/** Stands for the list where namespaces are used. */
export const listNamespace = "";

/** Any number of pods may name an image, each with its own secret. */
const maxSecrets = 20;

/** An image during the collection of pods' images. */
interface FoundImage {
  readonly reference: Reference;
  readonly namespaces: Set<string>;
  readonly secrets: Set<string>;
}

/** Whether a pod has not ended and is bound to one of these nodes, or to any node if there are none. */
export function usesImages({ spec, status }: Pod, nodes: ReadonlySet<string>): boolean {
  const { nodeName = "" } = spec;
  if (nodeName === "" || (nodes.size > 0 && !nodes.has(nodeName))) return false;
  return status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

/** The images that these pods and a list name. */
export function wantedImages(pods: readonly Pod[], listed: readonly string[]): Wanted {
  const found = new Map<string, FoundImage>();
  const running = new Map<string, Reference>();
  const add = (text: string, namespace: string): FoundImage | undefined => {
    const reference = referenceOf(text);
    if (!reference) return undefined;
    const name = formatReference(reference);
    const known = found.get(name) ?? { reference, namespaces: new Set(), secrets: new Set() };
    found.set(name, known);
    known.namespaces.add(namespace);
    return known;
  };
  for (const pod of pods) {
    const { namespace } = pod.metadata;
    const names = (pod.spec.imagePullSecrets ?? []).flatMap(({ name }) => name ?? []);
    for (const image of pulledImages(pod)) {
      const { secrets } = add(image, namespace) ?? {};
      for (const name of secrets ? names : [])
        if (secrets && secrets.size < maxSecrets) secrets.add(`${namespace}/${name}`);
    }
    for (const reference of runningImages(pod)) running.set(formatReference(reference), reference);
  }
  const invalid = listed.filter((text) => !add(text, listNamespace));
  const images = new Map(
    [...found].map(([name, { reference, namespaces, secrets }]) => [
      name,
      { reference, namespaces: [...namespaces].sort(), pullSecrets: [...secrets].sort() },
    ]),
  );
  return { images, running: [...running.values()], invalid };
}

/** The images that a pod's containers run according to their kubelets, by digest. */
function runningImages({ status = {} }: Pod): readonly Reference[] {
  const {
    initContainerStatuses = [],
    containerStatuses = [],
    ephemeralContainerStatuses = [],
  } = status;
  return [...initContainerStatuses, ...containerStatuses, ...ephemeralContainerStatuses].flatMap(
    ({ imageID }) => {
      // Kubelets with Docker wrote docker-pullable:// before the name.
      const reference = referenceOf(imageID.replace(/^[a-z-]+:\/\//, ""));
      return reference?.digest === undefined ? [] : [reference];
    },
  );
}

function referenceOf(text: string): Reference | undefined {
  try {
    return parseReference(text);
  } catch {
    return undefined;
  }
}

/** A pod with only the fields that are read here, because there may be thousands. */
export function slimPod({ metadata, spec, status = {} }: Pod): Pod {
  const { name, namespace, uid, resourceVersion } = metadata;
  const { nodeName, imagePullSecrets, volumes = [], containers } = spec;
  const { initContainers = [], ephemeralContainers = [] } = spec;
  const images = (all: readonly Pick<Container, "name" | "image">[]): Container[] =>
    all.map(({ name, image }) => defined({ name, image }));
  return {
    metadata: { name, namespace, uid, resourceVersion },
    spec: {
      ...defined({ nodeName, imagePullSecrets }),
      containers: images(containers),
      initContainers: images(initContainers),
      ephemeralContainers: images(ephemeralContainers),
      volumes: volumes.filter(({ image }) => image !== undefined),
    },
    status: {
      ...defined({ phase: status.phase }),
      initContainerStatuses: ran(status.initContainerStatuses),
      containerStatuses: ran(status.containerStatuses),
      ephemeralContainerStatuses: ran(status.ephemeralContainerStatuses),
    },
  };
}

function ran(statuses: readonly ContainerStatus[] = []): readonly ContainerStatus[] {
  return statuses.map(({ name, image, imageID, ready, restartCount }) => ({
    name,
    image,
    imageID,
    ready,
    restartCount,
  }));
}
