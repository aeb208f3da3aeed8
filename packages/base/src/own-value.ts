/**
 * The value of a name that a user has chosen. Plain access would find what every object has under such names as `constructor`,
 * a valid name of a container.
 */
export function ownValue<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
