import { AgentError } from "@kip/agent-api";
import { errorText } from "@kip/base";
import { obtainImage } from "../image/obtain-image.ts";
import { nextAttempt } from "../state/container-record.ts";
import { present, recordOf, type Executor } from "./step-tools.ts";

/** Gets the image of a container. The plan holds back the next try. */
export const pull: Executor<"pull"> = async ({ container, image: name }, context, tools) => {
  const { state, signal } = context;
  const { events, clock, dependencies } = tools;
  const { images, cacheFolder } = dependencies;
  const pod = present(state().desired);
  const record = recordOf(state(), container);
  const attempt = nextAttempt(record);
  context.change({ kind: "pullBegun", container });
  try {
    const { image, timingsMs } = await obtainImage(record.desired, {
      pod,
      images,
      cacheFolder,
      events,
      clock,
      signal,
    });
    const monotonicMs = clock.monotonic();
    return { kind: "imageReady", container, name, image, attempt, timingsMs, monotonicMs };
  } catch (error) {
    if (signal.aborted) return undefined;
    const problem = AgentError.is(error) ? error.imageProblem : undefined;
    const reason = problem ?? "ErrImagePull";
    events.warning("Failed", `Error: ${reason}`, container);
    const message = errorText(error);
    return { kind: "imageFailed", container, name, reason, message, nowMs: clock.now() };
  }
};
