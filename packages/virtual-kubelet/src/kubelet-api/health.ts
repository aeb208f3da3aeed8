import { HttpRefusal } from "./transport/answer.ts";

/** A thing that can be wrong with the node; throws if it is. */
export interface HealthCheck {
  readonly name: string;
  readonly check: () => Promise<void> | void;
}

/** How a health request is to be answered. */
export interface HealthQuery {
  /** Only this check. */
  readonly only?: string | undefined;
  readonly isVerbose: boolean;
  /** Checks that are not to be made. */
  readonly excluded: readonly string[];
}

/**
 * The text of `/healthz`, in the form all of Kubernetes' servers have: the reasons are for the log.
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
