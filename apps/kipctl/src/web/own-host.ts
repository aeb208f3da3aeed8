/**
 * Whether a request is for this page by its `Host` header. A page of another site whose name leads to this computer has its own name
 * there. Browsers leave the port 80 out.
 */
export function isOwnHost(header: string | undefined, port: number): boolean {
  return ["127.0.0.1", "localhost"].some(
    (name) => header === `${name}:${port}` || (port === 80 && header === name),
  );
}
