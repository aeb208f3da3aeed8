import type { ObjectMeta, Pod, PodSpec, PodStatus } from "../index.ts";

/** What a test wants to say about a pod; the rest has defaults. */
export interface PodParts {
  readonly metadata?: ObjectMeta | undefined;
  readonly spec?: Partial<PodSpec> | undefined;
  readonly status?: PodStatus | undefined;
}

/** A pod as an API server would have stored it: `default/web` with UID `u` and no containers, but for `parts`. */
export function podWith({ metadata, spec, status }: PodParts = {}): Pod {
  const identity = { namespace: "default", name: "web", uid: "u", resourceVersion: "1" };
  return {
    metadata: { ...identity, ...metadata },
    spec: { containers: [], ...spec },
    ...(status && { status }),
  };
}
