/** Documents up to this length, bytes, never wait for larger ones. Most pods' documents have a tenth of it. */
const smallBytes = 64 * 1024;
/**
 * Maximum total size of documents on the way to their agents, for all cells, bytes. In memory a document takes up to four times
 * its length until the agent has read it.
 */
const smallCapacity = 16 * 1024 * 1024;
const largeCapacity = 32 * 1024 * 1024;
/**
 * Additional capacity for namespaces without a document on the way, when others have taken everything: four documents of 1 MiB,
 * or more smaller ones.
 */
const spareCapacity = 4 * 1024 * 1024;

/** The namespace and the length of a document, bytes. */
export interface DocumentSize {
  readonly namespace: string;
  readonly bytes: number;
}

/** A document and its length, bytes. */
export interface MadeDocument<T> {
  readonly document: T;
  readonly bytes: number;
}

/** How to make and use a document. */
interface DocumentUse<T, R> {
  /** Makes the document at once, because it has its place. Undefined for none. */
  readonly make: () => MadeDocument<T> | undefined;
  readonly use: (document: T) => Promise<R>;
}

type Attempt<R> =
  | { readonly isSent: true; readonly result: R | undefined }
  /** The actual length of the document. */
  | { readonly isSent: false; readonly bytes: number };

type PlaceKind = "usual" | "spare";

interface Waiting {
  readonly bytes: number;
  readonly start: (place: PlaceKind) => void;
}

/**
 * Limits the documents on their way to agents, and with them the memory and time that pods with much content cost. A document
 * is made when it has a place, and the event loop runs between two documents. Namespaces take turns, and each has at most half
 * of the places. Two namespaces can take everything, so some places are reserved for documents of up to 1 MiB from a namespace
 * that has none on the way, one at a time. So cells of one tenant that do not read their documents only delay others if the
 * tenant has many namespaces, or if those others also send much.
 */
export class DocumentPlaces {
  readonly #small: Places;
  readonly #large: Places;

  /**
   * @param capacity capacity for small and for large documents, bytes. `spare` is additional capacity for large documents of up
   * to a quarter of it.
   * @default 16 MiB, 32 MiB and 4 MiB
   */
  constructor(
    capacity: { readonly small: number; readonly large: number; readonly spare?: number } = {
      small: smallCapacity,
      large: largeCapacity,
      spare: spareCapacity,
    },
  ) {
    this.#small = new Places(capacity.small);
    this.#large = new Places(capacity.large, capacity.spare);
  }

  /**
   * Makes a document when there is a place for it, and uses it. The place is free again when the use has ended. If a document
   * is longer than expected, it is made again when there is a place for its actual length.
   *
   * @param expected the length may be less than the actual one
   * @returns undefined if no document was made
   * @throws errors of `make` and `use`; the signal's reason if it aborts while waiting for a place
   */
  async send<T, R>(
    expected: DocumentSize,
    { make, use }: DocumentUse<T, R>,
    signal: AbortSignal,
  ): Promise<R | undefined> {
    for (let size = expected; ;) {
      const outcome = await this.#attempt(size, { make, use }, signal);
      if (outcome.isSent) return outcome.result;
      size = { ...size, bytes: outcome.bytes };
    }
  }

  /** A separate function, so that a document that was too long does not stay in memory while it waits for a place. */
  async #attempt<T, R>(
    size: DocumentSize,
    { make, use }: DocumentUse<T, R>,
    signal: AbortSignal,
  ): Promise<Attempt<R>> {
    const places = size.bytes <= smallBytes ? this.#small : this.#large;
    const free = await places.take(size, signal);
    try {
      const made = make();
      if (!made) return { isSent: true, result: undefined };
      const { document, bytes } = made;
      if (bytes > size.bytes) return { isSent: false, bytes };
      return { isSent: true, result: await use(document) };
    } finally {
      free();
    }
  }
}

/** Places for this number of bytes. */
class Places {
  readonly #capacity: Readonly<Record<PlaceKind, number>>;
  /** Waiting documents by namespace, in the order of their turns. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #taken = new Map<string, number>();
  readonly #used: Record<PlaceKind, number> = { usual: 0, spare: 0 };
  #isScheduled = false;

  constructor(usual: number, spare = 0) {
    this.#capacity = { usual, spare };
  }

  /** Waits for a place. The returned function releases it. @throws the signal's reason */
  async take({ namespace, bytes }: DocumentSize, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<PlaceKind>();
    const one: Waiting = { bytes: Math.min(bytes, this.#capacity.usual), start: resolve };
    const waiting = this.#waiting.get(namespace) ?? [];
    this.#waiting.set(namespace, waiting);
    waiting.push(one);
    const onAbort = (): void => {
      this.#remove(namespace, one);
      this.#schedule();
      reject(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#schedule();
    try {
      const place = await promise;
      return () => {
        this.#count(namespace, place, -one.bytes);
        this.#schedule();
      };
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Starts one document per turn of the event loop. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#startNext() && this.#waiting.size > 0) this.#schedule();
    });
  }

  /**
   * A document without a place delays those behind it, because smaller ones could otherwise delay it indefinitely. Those that
   * get a reserved place do not affect it, because it never waits for one.
   */
  #startNext(): boolean {
    let place: PlaceKind = "usual";
    for (const [namespace, [next]] of this.#waiting) {
      if (!next || !this.#isInShare(namespace, next.bytes)) continue;
      if (this.#used.usual + next.bytes > this.#capacity.usual) place = "spare";
      if (place === "spare" && !this.#canBeSpare(namespace, next.bytes)) continue;
      this.#remove(namespace, next);
      this.#putLast(namespace);
      this.#count(namespace, place, next.bytes);
      next.start(place);
      return true;
    }
    return false;
  }

  #isInShare(namespace: string, bytes: number): boolean {
    const taken = this.#taken.get(namespace) ?? 0;
    return taken === 0 || taken + bytes <= this.#capacity.usual / 2;
  }

  #canBeSpare(namespace: string, bytes: number): boolean {
    const { spare } = this.#capacity;
    return !this.#taken.has(namespace) && bytes <= spare / 4 && this.#used.spare + bytes <= spare;
  }

  #remove(namespace: string, one: Waiting): void {
    const left = (this.#waiting.get(namespace) ?? []).filter((each) => each !== one);
    if (left.length > 0) this.#waiting.set(namespace, left);
    else this.#waiting.delete(namespace);
  }

  #putLast(namespace: string): void {
    const left = this.#waiting.get(namespace);
    if (!left) return;
    this.#waiting.delete(namespace);
    this.#waiting.set(namespace, left);
  }

  #count(namespace: string, place: PlaceKind, bytes: number): void {
    this.#used[place] += bytes;
    const taken = (this.#taken.get(namespace) ?? 0) + bytes;
    if (taken > 0) this.#taken.set(namespace, taken);
    else this.#taken.delete(namespace);
  }
}
