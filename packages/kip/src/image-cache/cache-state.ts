import type { Moment, Plan } from "@kip/reconcile";
import type { WantedImage } from "./wanted-images.ts";

/** The state of an image that the cache should have. */
export interface ImageState extends WantedImage {
  /** When to ask its registry next, milliseconds of the clock's `monotonic()`. */
  readonly dueAtMs: number;
  /** The digest of its name, once it is known. */
  readonly digest?: string | undefined;
  /** Whether it is being fetched. */
  readonly isRunning?: boolean | undefined;
  /** Whether the cache has contained all of `digest`. */
  readonly isFilled?: boolean | undefined;
  /** Code of the last failure. Undefined after a success. */
  readonly problem?: string | undefined;
}

/** All images, by the full text of their references. */
export interface CacheState {
  readonly images: ReadonlyMap<string, ImageState>;
  /** Number of turns so far. */
  readonly turn: number;
  /** The last turn of each namespace that names images. A new one gets its first turn after those that are waiting. */
  readonly turns: ReadonlyMap<string, number>;
}

/** Nothing is wanted. */
export const noImages: CacheState = { images: new Map(), turn: 0, turns: new Map() };

/** The changes of {@link CacheState}. */
export type CacheChange =
  | { readonly kind: "wanted"; readonly images: ReadonlyMap<string, WantedImage> }
  /** The settings for registries have changed, so images that were unavailable may be available. */
  | { readonly kind: "settingsChanged" }
  /** Starts to fetch an image. This is a turn of the namespaces that name it. */
  | { readonly kind: "started"; readonly name: string }
  /** The registry has returned the digest of a name, and the cache lacks some of it. */
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

/** The kinds of steps, with their arguments. */
export interface CacheStepArgs {
  /** Looks up the digest of a name, and fetches what the cache lacks. */
  readonly fill: { readonly name: string };
}

/** The only function that changes the state. */
export function reduceCache(state: CacheState, change: CacheChange, now: Moment): CacheState {
  if (change.kind === "wanted") return withWanted(state, change.images, now.monotonicMs);
  if (change.kind === "settingsChanged") return withFailedDue(state, now.monotonicMs);
  const image = state.images.get(change.name);
  if (!image) return state;
  const images = new Map(state.images);
  if (change.kind !== "started")
    return { ...state, images: images.set(change.name, changed(image, change, now)) };
  images.set(change.name, { ...image, isRunning: true });
  return { images, ...withTurn(state, image) };
}

type Turns = Pick<CacheState, "turn" | "turns">;

function withTurn({ turn, turns }: Turns, { namespaces }: WantedImage): Turns {
  const changed = new Map(turns);
  for (const namespace of namespaces) changed.set(namespace, turn + 1);
  return { turn: turn + 1, turns: changed };
}

function changed(
  image: ImageState,
  change: Exclude<Extract<CacheChange, { readonly name: string }>, { readonly kind: "started" }>,
  { monotonicMs }: Moment,
): ImageState {
  if (change.kind === "resolved") {
    const isFilled = image.isFilled === true && image.digest === change.digest;
    return { ...image, digest: change.digest, isFilled };
  }
  const dueAtMs = monotonicMs + change.nextMs;
  const ended = { ...image, dueAtMs, isRunning: false };
  return change.kind === "filled"
    ? { ...ended, digest: change.digest, isFilled: true, problem: undefined }
    : { ...ended, problem: change.problem };
}

function withWanted(
  state: CacheState,
  wanted: ReadonlyMap<string, WantedImage>,
  nowMs: number,
): CacheState {
  let isSame = wanted.size === state.images.size;
  const images = new Map<string, ImageState>();
  const turns = new Map<string, number>();
  for (const [name, image] of wanted) {
    const known = state.images.get(name);
    const hasSameSecrets = known !== undefined && sameTexts(known.pullSecrets, image.pullSecrets);
    const hasSame = hasSameSecrets && sameTexts(known.namespaces, image.namespaces);
    if (!hasSame) isSame = false;
    // A new secret may give access where an old one did not.
    const isDue = !known || (!hasSameSecrets && known.problem !== undefined);
    images.set(
      name,
      hasSame ? known : { ...known, ...image, dueAtMs: isDue ? nowMs : known.dueAtMs },
    );
    for (const each of image.namespaces) turns.set(each, state.turns.get(each) ?? state.turn);
  }
  return isSame ? state : { ...state, images, turns };
}

function withFailedDue(state: CacheState, nowMs: number): CacheState {
  const images = [...state.images].map(([name, image]) => {
    const isFailing = image.problem !== undefined;
    return [
      name,
      isFailing ? { ...image, dueAtMs: Math.min(image.dueAtMs, nowMs) } : image,
    ] as const;
  });
  return { ...state, images: new Map(images) };
}

function sameTexts(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((text, index) => text === others[index]);
}

/**
 * Plans to fill what is due, up to a number of images at once. A place goes to the namespace with the fewest places, and among
 * these to the one whose last turn was longest ago. So a namespace with many or slow images does not delay the others. Within a
 * namespace, the image that has been due longest comes first.
 */
export function planCache(
  parallel: number,
): (state: CacheState, nowMs: number) => Plan<{ readonly kind: "fill"; readonly name: string }> {
  return ({ images, ...before }, nowMs) => {
    const names: string[] = [];
    const due = new Map<string, ImageState>();
    const places = new Map<string, number>();
    const fill = (name: string, { namespaces }: ImageState): void => {
      names.push(name);
      for (const each of namespaces) places.set(each, (places.get(each) ?? 0) + 1);
    };
    let wakeAtMs: number | undefined;
    for (const [name, image] of images) {
      const { dueAtMs, isRunning = false } = image;
      if (dueAtMs > nowMs) wakeAtMs = Math.min(wakeAtMs ?? dueAtMs, dueAtMs);
      else if (isRunning) fill(name, image);
      else due.set(name, image);
    }
    let turns: Turns = before;
    while (names.length < parallel) {
      const [name, image] = firstOf(due, places, turns) ?? [];
      if (name === undefined || !image) break;
      fill(name, image);
      due.delete(name);
      turns = withTurn(turns, image);
    }
    return { steps: names.map((name) => ({ kind: "fill" as const, name })), wakeAtMs };
  };
}

/** An image of the namespace that has the fewest places, or whose last turn was longest ago. */
function firstOf(
  due: ReadonlyMap<string, ImageState>,
  places: ReadonlyMap<string, number>,
  { turns }: Turns,
): readonly [string, ImageState] | undefined {
  let first: readonly [string, ImageState] | undefined;
  let firstOrder: Order = [Infinity, Infinity, Infinity];
  for (const entry of due) {
    const [, { namespaces, dueAtMs }] = entry;
    for (const each of namespaces) {
      const order: Order = [places.get(each) ?? 0, turns.get(each) ?? 0, dueAtMs];
      if (isBefore(order, firstOrder)) [first, firstOrder] = [entry, order];
    }
  }
  return first;
}

/** Places of a namespace, its last turn, and the time since when its image is due. */
type Order = readonly [number, number, number];

function isBefore(some: Order, other: Order): boolean {
  const index = some.findIndex((value, at) => value !== other[at]);
  return index >= 0 && some[index]! < other[index]!;
}

/** Failure codes that show that the cache need not have the image. */
const lasting: ReadonlySet<string> = new Set([
  "IMAGE_DIGEST_MISMATCH",
  "IMAGE_INVALID",
  "IMAGE_LIMIT_EXCEEDED",
  "IMAGE_NOT_FOUND",
  "IMAGE_PRIVATE",
  "IMAGE_STORE_FULL",
  "REGISTRY_UNAUTHORIZED",
]);

/** Whether each image's digest is known, or that it cannot be fetched. */
export function areAllDigestsKnown({ images }: CacheState): boolean {
  return [...images.values()].every(
    ({ digest, problem }) =>
      digest !== undefined || (problem !== undefined && lasting.has(problem)),
  );
}
