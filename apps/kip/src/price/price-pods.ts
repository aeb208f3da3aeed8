import {
  explainChoice,
  rankInstanceTypes,
  type Candidate,
  type Catalog,
  type Explanation,
  type InstanceTypeRequest,
} from "@kip/instance-types";
import {
  cellConstraints,
  checkPrice,
  instanceTypeRequest,
  selectByLaunchType,
} from "@kip/kip/selection";
import { errorText, isCodedError } from "@kip/base";
import { KipError } from "../errors.ts";
import type { PricedPods } from "./priced-document.ts";

/** The price of pods of one kind, with the reasons. */
export interface Price {
  readonly pods: PricedPods;
  readonly request: InstanceTypeRequest;
  readonly choice: Candidate;
  /** The second-best choice with the same launch type. Undefined if no other type fits. */
  readonly runnerUp: Candidate | undefined;
  readonly explanation: Explanation;
}

/** Pods that would get no machine. */
export interface Unpriced {
  readonly pods: PricedPods;
  /** `MANIFEST_INVALID` */
  readonly error: KipError;
}

/** What {@link pricePods} has found, both in the order of the pods. */
export interface Prices {
  readonly priced: readonly Price[];
  readonly unpriced: readonly Unpriced[];
}

/**
 * Chooses the machine for each of these pods, like kip would. A pod that has an invalid annotation, or would get no machine, does
 * not keep the others from being priced.
 */
export function pricePods(
  all: readonly PricedPods[],
  catalog: Catalog,
  defaultInstanceType: string | undefined,
): Prices {
  const priced: Price[] = [];
  const unpriced: Unpriced[] = [];
  for (const pods of all) {
    try {
      const constraints = cellConstraints(pods.pod);
      const request = instanceTypeRequest(pods.pod, defaultInstanceType, constraints);
      const choice = selectByLaunchType(catalog, request, constraints.launchTypes);
      checkPrice(choice, constraints);
      const alike = { ...request, launchTypes: [choice.launchType] };
      const [, runnerUp] = rankInstanceTypes(catalog, alike).take(2);
      const explanation = explainChoice(catalog, alike, choice);
      priced.push({ pods, request, choice, runnerUp, explanation });
    } catch (error) {
      if (!isCodedError(error)) throw error;
      const message = `Cannot price ${pods.kind} "${pods.name}" on ${catalog.cloud} ${catalog.region}: ${errorText(error)}`;
      // Kip's remedy is for a pod of a cluster.
      const isAnnotation = error.code === "ANNOTATION_INVALID";
      const remedy = isAnnotation ? "Correct the annotations in the manifest" : error.remedy;
      unpriced.push({ pods, error: new KipError("MANIFEST_INVALID", message, { remedy }) });
    }
  }
  return { priced, unpriced };
}

/** One error for all of them. Undefined if there are none. */
export function unpricedError(unpriced: readonly Unpriced[]): KipError | undefined {
  const [first] = unpriced;
  if (!first || unpriced.length === 1) return first?.error;
  const lines = unpriced.map(({ error }) =>
    error.remedy === undefined ? error.message : `${error.message}. ${error.remedy}`,
  );
  return new KipError(
    "MANIFEST_INVALID",
    `Cannot price ${unpriced.length} of the manifest's pods`,
    {
      remedy: lines.join("\n"),
    },
  );
}
