import type { Ec2, Ec2CallOptions, Ec2Calls } from "./ec2-calls.ts";

/** Actions with paged responses. */
type PagedAction = {
  [A in keyof Ec2Calls]: "NextToken" extends keyof Ec2Calls[A][1] ? A : never;
}[keyof Ec2Calls];

/**
 * Calls a lookup until EC2 has returned all pages. Without `MaxResults` EC2 chooses the page size, and may refuse the call of a
 * large account. A call with IDs instead of filters does not accept `MaxResults`.
 *
 * @throws {CloudError} of the closed set
 * @throws the signal's reason
 * @see https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-pagination.html
 */
export async function* eachPage<A extends PagedAction>(
  ec2: Ec2,
  action: A,
  input: Ec2Calls[A][0],
  options: Ec2CallOptions,
): AsyncGenerator<Ec2Calls[A][1], void> {
  let next: Ec2Calls[A][0] = input;
  for (;;) {
    const page = await ec2.call(action, next, options);
    yield page;
    const { NextToken = "" } = page;
    if (NextToken === "") return;
    next = { ...input, NextToken };
  }
}

/**
 * All pages of {@link eachPage}.
 *
 * @throws {CloudError} of the closed set
 * @throws the signal's reason
 */
export async function allPages<A extends PagedAction>(
  ...call: Parameters<typeof eachPage<A>>
): Promise<readonly Ec2Calls[A][1][]> {
  const pages: Ec2Calls[A][1][] = [];
  for await (const page of eachPage(...call)) pages.push(page);
  return pages;
}
