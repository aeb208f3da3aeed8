import { bandwidthOf } from "@kip/agent-api";
import { errorText, isCodedError } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { ProviderError } from "../errors.ts";

/**
 * Checks the annotations about the pod's bandwidth, so that no machine waits with the pod until they are corrected. With host
 * networking they have no effect.
 *
 * @throws {ProviderError} code `FAILED_CREATE_POD_SAND_BOX`
 */
export function checkBandwidth({ metadata, spec }: Pod): void {
  if (spec.hostNetwork === true) return;
  try {
    bandwidthOf(metadata.annotations ?? {});
  } catch (error) {
    throw new ProviderError(
      "FAILED_CREATE_POD_SAND_BOX",
      `Failed to create pod sandbox: ${errorText(error)}`,
      { cause: error, remedy: isCodedError(error) ? error.remedy : undefined },
    );
  }
}
