import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";
import { EagerClock } from "@kip/testing";
import { delegatedAccess, type DelegatedAccessOptions } from "./delegated-access.ts";

interface Review {
  readonly kind: string;
  readonly spec: Readonly<Record<string, unknown>>;
}

/** An API server that knows the token `good` and allows its user the actions in `allowed`. */
function access(
  allowed: readonly string[],
  options: Partial<DelegatedAccessOptions> & {
    fail?: number;
    retryAfterMs?: number;
    audiences?: readonly string[];
  } = {},
) {
  const reviews: Review[] = [];
  let failures = options.fail ?? 0;
  const clock = new EagerClock();
  const create = async (_path: string, body: Review): Promise<unknown> => {
    reviews.push(body);
    if (failures-- > 0)
      throw new K8sError("K8S_UNAVAILABLE", "away", {
        retryable: true,
        retryAfterMs: options.retryAfterMs,
      });
    if (body.kind === "SubjectAccessReview") {
      const asked = body.spec["resourceAttributes"] as { verb: string; subresource: string };
      return { status: { allowed: allowed.includes(`${asked.verb} ${asked.subresource}`) } };
    }
    if (body.spec["token"] !== "good") return { status: { error: "no such token" } };
    const user = { username: "u", uid: "1", groups: ["g"], extra: { k: ["v"] } };
    return { status: { authenticated: true, user, audiences: options.audiences ?? [] } };
  };
  const client = { create } as unknown as ApiClient; // the code under test only uses this method
  return {
    reviews,
    pauses: clock.pauses,
    ...delegatedAccess({ client, nodeName: "n1", clock, ...options }),
  };
}

function request(headers: Readonly<Record<string, string>>): IncomingMessage {
  return { headers, socket: {} } as unknown as IncomingMessage;
}

const good = request({ authorization: "Bearer good" });

describe("delegatedAccess(): who it is", () => {
  it("is the user of a token, asked for once", async () => {
    const { authenticate, reviews } = access([]);
    const [user] = await Promise.all([authenticate(good), authenticate(good)]);
    const groups = ["g", "system:authenticated"];
    assert.deepEqual(user, { name: "u", uid: "1", groups, extra: { k: ["v"] } });
    await authenticate(good);
    assert.equal(reviews.length, 1);
    assert.deepEqual(reviews[0]?.spec, { token: "good" });
  });

  it("is not known without a token, with a bad one or one in another form", async () => {
    const { authenticate, reviews } = access([]);
    const bad = request({ authorization: "Bearer bad" });
    assert.equal(await authenticate(request({})), undefined);
    assert.equal(await authenticate(bad), undefined);
    assert.equal(await authenticate(bad), undefined);
    assert.equal(await authenticate(request({ authorization: "Basic good" })), undefined);
    assert.equal(reviews.length, 1);
  });

  it("is the user of a token among a WebSocket's subprotocols, if another one is offered", async () => {
    const { authenticate } = access([]);
    const token = `base64url.bearer.authorization.k8s.io.${Buffer.from("good").toString("base64url")}`;
    const offer = (list: string): IncomingMessage => request({ "sec-websocket-protocol": list });
    assert.equal((await authenticate(offer(`${token}, v5.channel.k8s.io`)))?.name, "u");
    assert.equal(await authenticate(offer(token)), undefined);
  });

  it("is not known if the server does not vouch for the audience that was asked for", async () => {
    const tokens = { audiences: ["kubelet"] };
    assert.equal(await access([], { tokens }).authenticate(good), undefined);
    const others = access([], { tokens, audiences: ["api"] });
    assert.equal(await others.authenticate(good), undefined);
    assert.deepEqual(others.reviews[0]?.spec, { token: "good", audiences: ["kubelet"] });
    const ours = access([], { tokens, audiences: ["kubelet"] });
    assert.equal((await ours.authenticate(good))?.name, "u");
  });

  it("is anonymous only if that is wanted and nothing was shown", async () => {
    const { authenticate } = access([], { anonymous: true });
    assert.deepEqual(await authenticate(request({})), {
      name: "system:anonymous",
      groups: ["system:unauthenticated"],
    });
    assert.equal(await authenticate(request({ authorization: "Bearer bad" })), undefined);
  });

  it("repeats a question to a server that is away, and says so if it stays away", async () => {
    const back = access([], { fail: 2 });
    assert.equal((await back.authenticate(good))?.name, "u");
    await assert.rejects(access([], { fail: 3 }).authenticate(good), /away/);
  });

  it("pauses as long as the server asks, unless that is too long for a client", async () => {
    const busy = access([], { fail: 1, retryAfterMs: 7000 });
    assert.equal((await busy.authenticate(good))?.name, "u");
    assert.deepEqual(busy.pauses, [7000]);
    const away = access([], { fail: 1, retryAfterMs: 60_000 });
    await assert.rejects(away.authenticate(good), /away/);
    assert.deepEqual(away.pauses, []);
  });

  it("checks a bounded number of tokens at once", async () => {
    const never = new Promise<never>(() => {});
    const client = { create: async () => await never } as unknown as ApiClient; // as above
    const { authenticate } = delegatedAccess({ client, nodeName: "n", clock: systemClock });
    const token = (index: number): IncomingMessage => request({ authorization: `Bearer ${index}` });
    for (let index = 0; index < 50; index++) void authenticate(token(index));
    await assert.rejects(authenticate(token(50)), { status: 429 });
  });
});

describe("delegatedAccess(): what they may do", () => {
  const user = { name: "u", groups: ["g"] };
  const pods = { verb: "get", subresources: ["pods", "proxy"], path: "/pods" } as const;

  it("asks for the narrow permission first, then the wide one, each once", async () => {
    const narrow = access(["get pods"]);
    assert.equal(await narrow.authorize(user, pods), true);
    assert.equal(narrow.reviews.length, 1);
    assert.deepEqual(narrow.reviews[0]?.spec, {
      user: "u",
      groups: ["g"],
      resourceAttributes: {
        verb: "get",
        group: "",
        version: "v1",
        resource: "nodes",
        subresource: "pods",
        name: "n1",
      },
    });
    const wide = access(["get proxy"]);
    assert.equal(await wide.authorize(user, pods), true);
    assert.equal(await wide.authorize(user, pods), true);
    assert.equal(wide.reviews.length, 2);
    assert.equal(await access(["create proxy"]).authorize(user, pods), false);
  });

  it("keeps the verdicts of users apart that differ in anything", async () => {
    const { authorize, reviews } = access(["get pods"]);
    const users = [
      user,
      { ...user, name: "v" },
      { ...user, groups: [] },
      { ...user, uid: "1" },
      { ...user, extra: { k: ["v"] } },
    ];
    for (const each of users) assert.ok(await authorize(each, pods));
    for (const each of users) assert.ok(await authorize(each, pods));
    assert.equal(reviews.length, users.length);
  });
});
