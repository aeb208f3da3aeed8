/**
 * Yields items in ascending order, without sorting those that the caller does not take. This is a binary heap: at most 2n
 * comparisons to build it, and 2 log2(n) for each further item.
 */
export function* takeInOrder<T>(
  items: readonly T[],
  compare: (a: T, b: T) => number,
): IterableIterator<T> {
  const heap = [...items];
  for (let i = (heap.length >> 1) - 1; i >= 0; i--) siftDown(heap, i, compare);
  for (;;) {
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined) return;
    if (heap.length > 0) {
      heap[0] = last;
      siftDown(heap, 0, compare);
    }
    yield first;
  }
}

function siftDown<T>(heap: T[], start: number, compare: (a: T, b: T) => number): void {
  const item = heap[start];
  if (item === undefined) return;
  let at = start;
  for (;;) {
    const left = 2 * at + 1;
    const [a, b] = [heap[left], heap[left + 1]];
    if (a === undefined) break;
    const isRight = b !== undefined && compare(b, a) < 0;
    const child = isRight ? b : a;
    if (compare(child, item) >= 0) break;
    heap[at] = child;
    at = isRight ? left + 1 : left;
  }
  heap[at] = item;
}
