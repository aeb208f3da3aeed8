import { defined } from "@kip/base";
import type { Container, ContainerStatus, Pod } from "@kip/k8s-types";
import { formatReference, parseReference, type Reference } from "@kip/oci-image";
import { pulledImages } from "../dispatch/desired-pod.ts";

/** An image that the cache should have. */
export interface WantedImage {
  readonly reference: Reference;
  /** `<namespace>/<name>` of pull secrets of pods that name the image, sorted; at most {@link maxSecrets}. */
  readonly pullSecrets: readonly string[];
}

/** What pods and a list ask of the cache. */
export interface Wanted {
  /** By the full text of their references. */
  readonly images: ReadonlyMap<string, WantedImage>;
  /** What containers run, by digest: a tag may mean another image by now. */
  readonly running: readonly Reference[];
  /** Texts of the list that are not names of images. Of pods, the cell's agent reports them. */
  readonly invalid: readonly string[];
}

/** Any number of pods may name an image, with a secret each. */
const maxSecrets = 20;

/** Whether a pod is bound to one of some nodes, or of all if there are none, and has not ended. */
export function usesImages({ spec, status }: Pod, nodes: ReadonlySet<string>): boolean {
  const { nodeName = "" } = spec;
  if (nodeName === "" || (nodes.size > 0 && !nodes.has(nodeName))) return false;
  return status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

/** The images that some pods and a list name. */
export function wantedImages(pods: readonly Pod[], listed: readonly string[]): Wanted {
  const secrets = new Map<string, Set<string>>();
  const references = new Map<string, Reference>();
  const running = new Map<string, Reference>();
  const add = (text: string): Set<string> | undefined => {
    const reference = referenceOf(text);
    if (!reference) return undefined;
    const name = formatReference(reference);
    references.set(name, reference);
    const known = secrets.get(name) ?? new Set();
    secrets.set(name, known);
    return known;
  };
  for (const pod of pods) {
    const { namespace } = pod.metadata;
    const names = (pod.spec.imagePullSecrets ?? []).flatMap(({ name }) => name ?? []);
    for (const image of pulledImages(pod)) {
      const known = add(image);
      for (const name of known ? names : [])
        if (known && known.size < maxSecrets) known.add(`${namespace}/${name}`);
    }
    for (const reference of runningImages(pod)) running.set(formatReference(reference), reference);
  }
  const invalid = listed.filter((text) => !add(text));
  const images = new Map(
    [...references].map(([name, reference]) => [
      name,
      { reference, pullSecrets: [...(secrets.get(name) ?? [])].sort() },
    ]),
  );
  return { images, running: [...running.values()], invalid };
}

/** By digest, what the kubelets say that a pod's containers run. */
function runningImages({ status = {} }: Pod): readonly Reference[] {
  const {
    initContainerStatuses = [],
    containerStatuses = [],
    ephemeralContainerStatuses = [],
  } = status;
  return [...initContainerStatuses, ...containerStatuses, ...ephemeralContainerStatuses].flatMap(
    ({ imageID }) => {
      // Docker's kubelets wrote docker-pullable:// before the name.
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

/** A pod with no more than what is read here: there may be thousands. */
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
