/**
 * The value of a name that a user chose. Plain access would also find inherited properties such as `constructor`, which is a
 * valid container name.
 */
export function ownValue<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
