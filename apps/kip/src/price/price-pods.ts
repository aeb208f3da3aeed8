import {
  explainChoice,
  rankInstanceTypes,
  selectInstanceType,
  type Candidate,
  type Catalog,
  type Explanation,
  type InstanceTypeRequest,
} from "@kip/instance-types";
import { cellConstraints, checkPrice, instanceTypeRequest } from "@kip/kip/selection";
import { errorText, isCodedError } from "@kip/base";
import { KipError } from "../errors.ts";
import type { PricedPods } from "./priced-document.ts";

/** The price of pods of one kind, with the reasons. */
export interface Price {
  readonly pods: PricedPods;
  readonly request: InstanceTypeRequest;
  readonly choice: Candidate;
  /** The second-best choice. Undefined if no other type fits. */
  readonly runnerUp: Candidate | undefined;
  readonly explanation: Explanation;
}

/**
 * Chooses the machine for each of these pods, like kip would.
 *
 * @throws {KipError} `MANIFEST_INVALID` for an invalid annotation, and for a pod that would get no machine
 */
export function pricePods(
  all: readonly PricedPods[],
  catalog: Catalog,
  defaultInstanceType: string | undefined,
): readonly Price[] {
  return all.map((pods) => {
    try {
      const constraints = cellConstraints(pods.pod);
      const request = instanceTypeRequest(pods.pod, defaultInstanceType, constraints);
      const choice = selectInstanceType(catalog, request);
      checkPrice(choice, constraints);
      const [, runnerUp] = rankInstanceTypes(catalog, request).take(2);
      const explanation = explainChoice(catalog, request, choice);
      return { pods, request, choice, runnerUp, explanation };
    } catch (error) {
      if (!isCodedError(error)) throw error;
      throw new KipError(
        "MANIFEST_INVALID",
        `Cannot price ${pods.kind} "${pods.name}" on ${catalog.cloud} ${catalog.region}: ${errorText(error)}`,
        { remedy: error.remedy },
      );
    }
  });
}
