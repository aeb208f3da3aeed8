import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { createLogger, Secret } from "@kip/base";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import { parseReference } from "@kip/oci-image";
import { temporaryFolder } from "@kip/testing";
import { imageLogIns } from "./image-log-ins.ts";

const reference = parseReference("r.example.com/team/app:1");

/** A client with these Secrets, by namespace and name. */
function clientOf(secrets: Readonly<Record<string, Readonly<Record<string, string>>>>): ApiClient {
  const get = async (asked: string): Promise<unknown> => {
    const [, namespace = "", name = ""] = /namespaces\/(.*)\/secrets\/(.*)$/.exec(asked) ?? [];
    const text = secrets[`${namespace}/${name}`];
    if (!text) throw new K8sError("K8S_NOT_FOUND", `There is no ${name}`);
    const data = Object.entries(text).map(([key, value]) => [key, btoa(value)]);
    return await Promise.resolve({ data: Object.fromEntries(data) as unknown });
  };
  return { get } as unknown as ApiClient; // no other call is made
}

const auths = (username: string, host = "r.example.com"): string =>
  JSON.stringify({ auths: { [host]: { username, password: "p" } } });

describe("imageLogIns()", () => {
  it("tries the pods' secrets, then the account of the configuration", async () => {
    const client = clientOf({
      "a/new": { ".dockerconfigjson": auths("ann") },
      "b/old": {
        ".dockercfg": JSON.stringify({ "r.example.com": { username: "bob", password: "p" } }),
      },
      "c/other": { ".dockerconfigjson": auths("eve", "elsewhere.example.com") },
      "d/broken": { ".dockerconfigjson": '{"auths": s3cret' },
    });
    const lines: string[] = [];
    const logger = createLogger({ level: "trace", write: (line) => lines.push(line) });
    const pullSecrets = ["a/new", "b/old", "c/other", "d/broken", "e/missing"];
    const own = { host: "r.example.com", username: "kip", password: "p" };
    const settings = { registries: [own], dockerConfig: undefined };
    const users = async (reader: ApiClient | undefined) =>
      (await imageLogIns({ reference, pullSecrets }, settings, { client: reader, logger })).map(
        (each) => each.map(({ username }) => username).join(),
      );
    assert.deepEqual(await users(client), ["ann", "bob", "kip"]);
    assert.match(lines.join(""), /e\/missing/);
    assert.doesNotMatch(lines.join(""), /s3cret/);
    // Not configured, so no Secret is read.
    assert.deepEqual(await users(undefined), ["kip"]);
  });

  it("asks the file of docker login for the registry and its mirrors, not for others", async () => {
    using folder = temporaryFolder();
    const dockerConfig = path.join(folder.path, "config.json");
    writeFileSync(dockerConfig, auths("filed", "mirror.example.com"));
    const mirrors = ["https://mirror.example.com"];
    const registries = [{ host: "r.example.com", mirrors }, { host: "other.example.com" }];
    const logger = createLogger({ level: "error", write: () => {} });
    const all = await imageLogIns(
      { reference, pullSecrets: [] },
      { registries, dockerConfig },
      { client: undefined, logger },
    );
    const [each = [], ...more] = all;
    assert.deepEqual(more, []);
    const asks = new Map(each.map(({ host, credentials }) => [host, credentials]));
    assert.equal(asks.get("other.example.com"), undefined);
    assert.equal(await asks.get("r.example.com")?.("r.example.com"), undefined);
    const found = await asks.get("mirror.example.com")?.("mirror.example.com");
    assert.equal(found?.username, "filed");
    assert.ok(found.password instanceof Secret);
  });
});
