/**
 * Whether the `Host` header shows that a request is for this page. If another site's name resolves to this computer, the header
 * has that name. Browsers omit port 80.
 */
export function isOwnHost(header: string | undefined, port: number): boolean {
  return ["127.0.0.1", "localhost"].some(
    (name) => header === `${name}:${port}` || (port === 80 && header === name),
  );
}
