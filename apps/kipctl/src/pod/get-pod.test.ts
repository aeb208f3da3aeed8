import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podPath } from "./get-pod.ts";

describe("podPath()", () => {
  const texts: readonly (readonly [string, string, string])[] = [
    ["web", "default", "web"],
    ["pod/web", "default", "web"],
    ["shop/web", "shop", "web"],
    ["po/shop/web", "shop", "web"],
    ["shop_web", "shop", "web"],
  ];
  for (const [text, namespace, name] of texts)
    it(`reads ${text}`, () => assert.deepEqual(podPath(text, "default"), { namespace, name }));
});
