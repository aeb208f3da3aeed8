import { recordOf, type Executor } from "./step-tools.ts";

/**
 * Reports `ImagePullBackOff` with its events some time after a failed pull, like the kubelet does when it next syncs the pod.
 */
export const hold: Executor<"hold"> = async ({ container }, { state }, { events }) => {
  const { image, desired } = recordOf(state(), container);
  const name = image.kind === "failed" ? image.name : desired.image;
  const message = `Back-off pulling image "${name}"`;
  events.normal("BackOff", message, container);
  events.warning("Failed", "Error: ImagePullBackOff", container);
  return { kind: "held", container, message };
};
