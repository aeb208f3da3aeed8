import type { Moment, Plan } from "@kip/reconcile";
import type { WantedImage } from "./wanted-images.ts";

/** What is known of an image that the cache should have. */
export interface ImageState extends WantedImage {
  /** When its registry is asked next, milliseconds of the clock's `monotonic()`. */
  readonly dueAtMs: number;
  /** What its name means, once that is known. */
  readonly digest?: string | undefined;
  /** Whether the cache has had all of `digest`. */
  readonly isFilled?: boolean | undefined;
  /** Code of the last failure; undefined after a success. */
  readonly problem?: string | undefined;
}

/** All images, by the full text of their references. */
export interface CacheState {
  readonly images: ReadonlyMap<string, ImageState>;
}

/** What happens to {@link CacheState}. */
export type CacheChange =
  | { readonly kind: "wanted"; readonly images: ReadonlyMap<string, WantedImage> }
  /** Registries are asked in another way: what could not be had may be there. */
  | { readonly kind: "settingsChanged" }
  /** The registry has said what a name means, and the cache lacks some of it. */
  | { readonly kind: "resolved"; readonly name: string; readonly digest: string }
  /** The cache has all of an image. */
  | {
      readonly kind: "filled";
      readonly name: string;
      readonly digest: string;
      readonly nextMs: number;
    }
  | {
      readonly kind: "failed";
      readonly name: string;
      readonly problem: string;
      readonly nextMs: number;
    };

/** Steps, with their arguments. */
export interface CacheStepArgs {
  /** Asks what a name means, and puts what is missing of it into the cache. */
  readonly fill: { readonly name: string };
}

/** The only writer of the state. */
export function reduceCache(state: CacheState, change: CacheChange, now: Moment): CacheState {
  if (change.kind === "wanted") return withWanted(state, change.images, now.monotonicMs);
  if (change.kind === "settingsChanged") return withFailedDue(state, now.monotonicMs);
  const image = state.images.get(change.name);
  if (!image) return state;
  return { images: new Map(state.images).set(change.name, changed(image, change, now)) };
}

function changed(
  image: ImageState,
  change: Extract<CacheChange, { readonly name: string }>,
  { monotonicMs }: Moment,
): ImageState {
  if (change.kind === "resolved") {
    const isFilled = image.isFilled === true && image.digest === change.digest;
    return { ...image, digest: change.digest, isFilled };
  }
  const dueAtMs = monotonicMs + change.nextMs;
  return change.kind === "filled"
    ? { ...image, dueAtMs, digest: change.digest, isFilled: true, problem: undefined }
    : { ...image, dueAtMs, problem: change.problem };
}

function withWanted(
  state: CacheState,
  wanted: ReadonlyMap<string, WantedImage>,
  nowMs: number,
): CacheState {
  let isSame = wanted.size === state.images.size;
  const images = new Map<string, ImageState>();
  for (const [name, image] of wanted) {
    const known = state.images.get(name);
    const hasSame = known !== undefined && sameTexts(known.pullSecrets, image.pullSecrets);
    if (!hasSame) isSame = false;
    // A new secret may let in what an old one did not.
    const isDue = !known || (!hasSame && known.problem !== undefined);
    images.set(
      name,
      hasSame ? known : { ...known, ...image, dueAtMs: isDue ? nowMs : known.dueAtMs },
    );
  }
  return isSame ? state : { images };
}

function withFailedDue(state: CacheState, nowMs: number): CacheState {
  const images = [...state.images].map(([name, image]) => {
    const isFailing = image.problem !== undefined;
    return [
      name,
      isFailing ? { ...image, dueAtMs: Math.min(image.dueAtMs, nowMs) } : image,
    ] as const;
  });
  return { images: new Map(images) };
}

function sameTexts(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((text, index) => text === others[index]);
}

/** Fills what is due, the longest due first, so many at once. */
export function planCache(
  parallel: number,
): (state: CacheState, nowMs: number) => Plan<{ readonly kind: "fill"; readonly name: string }> {
  return ({ images }, nowMs) => {
    const due: { readonly name: string; readonly dueAtMs: number }[] = [];
    let wakeAtMs: number | undefined;
    for (const [name, { dueAtMs }] of images) {
      if (dueAtMs <= nowMs) due.push({ name, dueAtMs });
      else wakeAtMs = Math.min(wakeAtMs ?? dueAtMs, dueAtMs);
    }
    due.sort((a, b) => a.dueAtMs - b.dueAtMs);
    const steps = due.slice(0, parallel).map(({ name }) => ({ kind: "fill" as const, name }));
    return { steps, wakeAtMs };
  };
}

/** Codes of failures by which it is known that the cache need not have the image. */
const lasting: ReadonlySet<string> = new Set([
  "IMAGE_DIGEST_MISMATCH",
  "IMAGE_INVALID",
  "IMAGE_LIMIT_EXCEEDED",
  "IMAGE_NOT_FOUND",
  "IMAGE_PRIVATE",
  "IMAGE_STORE_FULL",
  "REGISTRY_UNAUTHORIZED",
]);

/** Whether it is known of each image what its name means, or that it cannot be had. */
export function knowsAll({ images }: CacheState): boolean {
  return [...images.values()].every(
    ({ digest, problem }) =>
      digest !== undefined || (problem !== undefined && lasting.has(problem)),
  );
}
