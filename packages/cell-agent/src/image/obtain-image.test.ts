// The kubelet's words and reasons, as of Kubernetes 1.34 (pkg/kubelet/images/image_manager.go).
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AgentError, type DesiredContainer, type DesiredPod } from "@kip/agent-api";
import {
  ImageError,
  parseReference,
  type ImageErrorCode,
  type PulledImage,
  type PullOptions,
} from "@kip/oci-image";
import { EagerClock } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { eventList } from "../../test/event-list.ts";
import { fakeDependencies } from "../../test/fake-dependencies.ts";
import { obtainImage } from "./obtain-image.ts";
import { pullAs } from "./pull-as.ts";

const image = "registry.test/web:1";
const signal = new AbortController().signal;
const pulled = await fakeDependencies().images.pull(parseReference(image), { registries: [] });

interface Trial {
  readonly policy: DesiredContainer["imagePullPolicy"];
  readonly image?: string;
  readonly isPresent?: boolean;
  readonly error?: Error;
}

/** @returns the reason of the failure, if it failed, and the events */
async function obtain(trial: Trial): Promise<{ reason: string; told: string[]; pulls: number }> {
  let pulls = 0;
  const clock = new EagerClock({ lookMs: 1204.9 });
  const { events, list } = eventList();
  const images = {
    find: async () => (trial.isPresent === true ? pulled : undefined),
    pull: async () => {
      pulls++;
      if (trial.error) throw trial.error;
      return pulled;
    },
  };
  const wanted = container("web", {
    imagePullPolicy: trial.policy,
    image: trial.image ?? image,
  });
  const reason = await obtainImage(wanted, {
    pod: desiredPod(),
    images,
    events,
    clock,
    signal,
  }).then(
    () => "",
    (error: unknown) => (AgentError.is(error) ? String(error.imageProblem) : String(error)),
  );
  const told = list.map((event) => `${event.type} ${event.reason}: ${event.message}`);
  return { reason, told, pulls };
}

const present = `Normal Pulled: Container image "${image}" already present on machine`;
const pulling = `Normal Pulling: Pulling image "${image}"`;
const done = `Normal Pulled: Successfully pulled image "${image}" in 1.204s (1.204s including waiting). Image size: 100 bytes.`;

describe("obtainImage(), by imagePullPolicy", () => {
  for (const [policy, isPresent, told] of [
    ["Always", true, [pulling, done]],
    ["Always", false, [pulling, done]],
    ["IfNotPresent", true, [present]],
    ["IfNotPresent", false, [pulling, done]],
    ["Never", true, [present]],
  ] as const) {
    it(`${policy}, image ${isPresent ? "present" : "absent"}`, async () => {
      const result = await obtain({ policy, isPresent });
      assert.deepEqual(result, { reason: "", told, pulls: told.length - 1 });
    });
  }

  it("Never, image absent: ErrImageNeverPull", async () => {
    assert.deepEqual(await obtain({ policy: "Never" }), {
      reason: "ErrImageNeverPull",
      told: [
        `Warning ErrImageNeverPull: Container image "${image}" is not present with pull policy of Never`,
      ],
      pulls: 0,
    });
  });
});

describe("obtainImage(), of an image that cannot be pulled", () => {
  it("ErrImagePull: its registry refuses", async () => {
    const error = new ImageError("REGISTRY_UNREACHABLE", "no answer", { action: "pull image" });
    assert.deepEqual(await obtain({ policy: "Always", error }), {
      reason: "ErrImagePull",
      told: [
        pulling,
        `Warning Failed: Failed to pull image "${image}": Cannot pull image: no answer`,
      ],
      pulls: 1,
    });
  });

  it("InvalidImageName: its name is none", async () => {
    const { reason, told, pulls } = await obtain({ policy: "Always", image: "Upper/Case" });
    assert.deepEqual([reason, told.length, pulls], ["InvalidImageName", 1, 0]);
    assert.match(
      told[0] ?? "",
      /^Warning InspectFailed: Failed to apply default image tag "Upper\/Case": couldn't parse image name: /,
    );
  });
});

describe("pullAs()", () => {
  /** @returns the user names that were tried, from a registry that only accepts `known` */
  async function tried(
    registries: DesiredPod["registries"],
    known: string | undefined,
    code: ImageErrorCode = "REGISTRY_UNAUTHORIZED",
  ): Promise<{ users: (string | undefined)[]; result: unknown }> {
    const users: (string | undefined)[] = [];
    const images = {
      pull: async (_reference: unknown, options: PullOptions): Promise<PulledImage> => {
        const entry = options.registries.find(({ host }) => host === "registry.test");
        users.push(entry?.username);
        if (entry?.username === known) return pulled;
        throw new ImageError(code, `${entry?.username} is refused`);
      },
    };
    const pod = desiredPod({ registries });
    const result: unknown = await pullAs(parseReference(image), { pod, images, signal }).catch(
      (error: unknown) => error,
    );
    return { users, result };
  }
  const account = (username: string, path?: string) => ({
    username,
    password: "x",
    ...(path !== undefined && { path }),
  });

  it("tries the accounts that are for the repository, then the installation's own", async () => {
    const accounts = [account("other", "team/"), account("web", "web"), account("all")];
    const registries = [{ host: "registry.test", username: "own", password: "y", accounts }];
    assert.deepEqual((await tried(registries, "own")).users, ["web", "all", "own"]);
    assert.deepEqual((await tried(registries, "all")).users, ["web", "all"]);
    assert.equal((await tried(registries, "web")).result, pulled);
  });

  it("throws the first refusal, and stops at other failures", async () => {
    const registries = [{ host: "registry.test", accounts: [account("a"), account("b")] }];
    assert.match(String((await tried(registries, "c")).result), /a is refused/);
    assert.deepEqual((await tried(registries, "b", "REGISTRY_UNREACHABLE")).users, ["a"]);
    assert.deepEqual((await tried([], undefined)).users, [undefined]);
  });

  it("hands over proxy and cache, and goes without a cache that cannot be had", async () => {
    const seen: unknown[] = [];
    const images = {
      pull: async (_reference: unknown, { cache, proxy }: PullOptions): Promise<PulledImage> => {
        seen.push({ cache, proxy });
        return pulled;
      },
    };
    const proxy = { HTTPS_PROXY: "http://proxy.test:3128" };
    const pod = desiredPod({ images: { cache: { path: "/cache" }, proxy } });
    for (const folder of ["/cache", undefined]) {
      const cacheFolder = async () => folder;
      await pullAs(parseReference(image), { pod, images, cacheFolder, signal });
    }
    assert.deepEqual(seen, [
      { cache: "/cache", proxy },
      { cache: undefined, proxy },
    ]);
  });
});
