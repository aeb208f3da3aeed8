import type { IncomingHttpHeaders } from "node:http";
import type { Answer } from "./client-tokens.ts";

/** How long a log-in of ECR is valid, seconds. */
const logInSeconds = 12 * 3600;

/** Has moto answer a call of an API that speaks JSON, ECR's for one. Its log-ins have always expired: here they are as ECR's. */
export async function forwardTarget(
  moto: string,
  { authorization = "", "x-amz-target": target }: IncomingHttpHeaders,
  body: string,
): Promise<Answer> {
  const name = String(target);
  const response = await fetch(moto, {
    method: "POST",
    headers: { authorization, "x-amz-target": name, "content-type": "application/x-amz-json-1.1" },
    body,
  });
  const answer = await response.text();
  const isLogIn = name.endsWith(".GetAuthorizationToken") && response.ok;
  return { status: response.status, body: isLogIn ? withExpiry(answer) : answer };
}

function withExpiry(answer: string): string {
  const { authorizationData = [] } = JSON.parse(answer) as { authorizationData?: object[] };
  const expiresAt = Math.floor(Date.now() / 1000) + logInSeconds;
  return JSON.stringify({
    authorizationData: authorizationData.map((each) => ({ ...each, expiresAt })),
  });
}
