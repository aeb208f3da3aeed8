import type { IncomingHttpHeaders } from "node:http";
import type { Answer } from "./client-tokens.ts";

/** How long an ECR login is valid, seconds. */
const logInSeconds = 12 * 3600;

/** Forwards a call of a JSON API, such as ECR's, to moto. moto's logins have always expired. They get ECR's lifetime here. */
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
