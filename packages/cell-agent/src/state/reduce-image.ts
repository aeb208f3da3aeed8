import type { ContainerRecord, ImageState } from "./container-record.ts";
import { failureDelayMs } from "./crash-backoff.ts";
import type { ContainerChange } from "./pod-change.ts";

type ImageKind = "pullBegun" | "imageReady" | "imageFailed" | "held";
type ImageChange<K extends ImageKind = ImageKind> = Extract<ContainerChange, { kind: K }>;

/** How long a failed pull shows its error before it shows that it is held back, milliseconds. */
const errorShownMs = 1000;

/** Applies a change to the image of a container. Results for an image that is no longer wanted have no effect. */
export function reduceImage(record: ContainerRecord, change: ImageChange): ContainerRecord {
  switch (change.kind) {
    case "pullBegun":
      return { ...record, image: { kind: "pulling", failures: failuresOf(record.image) } };
    case "imageReady":
      return change.name === record.desired.image ? ready(record, change) : record;
    case "imageFailed":
      return change.name === record.desired.image ? failed(record, change) : record;
    default:
      return held(record, change.message);
  }
}

function ready(record: ContainerRecord, change: ImageChange<"imageReady">): ContainerRecord {
  const { image, volumes, attempt } = change;
  const waiting = failuresOf(record.image) > 0 ? undefined : record.waiting;
  return { ...record, image: { kind: "ready", image, volumes, attempt }, waiting };
}

function failed(record: ContainerRecord, change: ImageChange<"imageFailed">): ContainerRecord {
  const { reason, message, nowMs } = change;
  const failures = failuresOf(record.image) + 1;
  const image: ImageState = {
    kind: "failed",
    name: change.volumeImage ?? change.name,
    reason,
    message,
    failures,
    retryAtMs: nowMs + failureDelayMs(failures),
    holdAtMs: reason === "ErrImagePull" ? nowMs + errorShownMs : undefined,
  };
  return { ...record, image, waiting: { reason, message } };
}

function held(record: ContainerRecord, why: string): ContainerRecord {
  const { image } = record;
  if (image.kind !== "failed") return record;
  const message = `${why}: ${image.reason}: ${image.message}`;
  const waiting = { reason: "ImagePullBackOff", message };
  return { ...record, image: { ...image, holdAtMs: undefined }, waiting };
}

function failuresOf(image: ImageState): number {
  return image.kind === "pulling" || image.kind === "failed" ? image.failures : 0;
}
