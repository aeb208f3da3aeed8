import { HttpRefusal } from "./transport/answer.ts";

/** A check of the node. Throws if something is wrong. */
export interface HealthCheck {
  readonly name: string;
  readonly check: () => Promise<void> | void;
}

/** Options of a health request. */
export interface HealthQuery {
  /** The only check to run. */
  readonly only?: string | undefined;
  readonly isVerbose: boolean;
  /** Checks to skip. */
  readonly excluded: readonly string[];
}

/**
 * The text of `/healthz`, in the form of all Kubernetes servers. Reasons are only logged.
 *
 * @throws HttpRefusal 500 if a check fails
 */
export async function healthText(
  checks: readonly HealthCheck[],
  { only, isVerbose, excluded }: HealthQuery,
  onFailure: (name: string, error: unknown) => void,
): Promise<string> {
  const asked = checks.filter(({ name }) => only === undefined || name === only);
  let text = "";
  let isHealthy = true;
  for (const { name, check } of asked) {
    if (excluded.includes(name)) {
      text += `[+]${name} excluded: ok\n`;
      continue;
    }
    try {
      await check();
      text += `[+]${name} ok\n`;
    } catch (error) {
      onFailure(name, error);
      isHealthy = false;
      text += `[-]${name} failed: reason withheld\n`;
    }
  }
  if (!isHealthy) throw new HttpRefusal(500, `${text}healthz check failed\n`);
  return isVerbose ? `${text}healthz check passed\n` : "ok";
}
