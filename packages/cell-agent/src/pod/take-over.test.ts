import assert from "node:assert/strict";
import fs, { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import { agentDirectories, type AgentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

function agent(directories: AgentDirectories, clock: ManualClock): AgentWorker {
  return new AgentWorker({ directories, clock, logger: silentLogger, onChange: () => {} });
}

describe("takeOver(), after an agent that was killed", () => {
  it("frees what is left of runs besides the present ones, and of logs besides the last two", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const { containers, subPaths, logs } = directories;
    const runtime = new FakeRuntime();
    const clock = new ManualClock(Date.now()); // in the runtime's form of an end
    const first = agent(directories, clock);
    await first.begin(fakeDependencies({ runtime }));
    first.put(desiredPod());
    await eventually(() => first.report()?.containers[0]?.running !== undefined);
    runtime.exit("web", 1);
    await eventually(async () => {
      await clock.advance(1000);
      const [web] = first.report()?.containers ?? [];
      return web?.restartCount === 1 && web.running !== undefined;
    });
    await first[Symbol.asyncDispose]();
    const present = readdirSync(containers);
    assert.equal(present.length, 1);
    // From a run whose container is gone, and which the agent was about to clean up.
    mkdirSync(`${containers}/earlier/image-volumes/models`, { recursive: true });
    mkdirSync(`${subPaths}/earlier/0`, { recursive: true });
    mkdirSync(`${logs}/web/earlier`);

    const unmounted: string[] = [];
    const parts = fakeDependencies({ runtime });
    const note = async (directory: string): Promise<void> => void unmounted.push(directory);
    const second = agent(directories, clock);
    await second.begin({
      ...parts,
      images: { ...parts.images, unmountRootfs: note },
      mounter: { ...parts.mounter, unmount: note },
    });
    await eventually(() => !existsSync(`${containers}/earlier`));
    assert.deepEqual(unmounted, [
      `${containers}/earlier`,
      `${containers}/earlier/image-volumes/models`,
      `${subPaths}/earlier/0`,
    ]);
    assert.deepEqual(readdirSync(containers), present);
    assert.deepEqual(readdirSync(subPaths), []);
    assert.deepEqual(readdirSync(`${logs}/web`).toSorted(), ["0", "1"]);
    assert.ok(second.report()?.containers[0]?.running, "the present run goes on");
    await second[Symbol.asyncDispose]();
  });

  it("finds all containers that were being made, whose state is written once for many", async (t) => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const runtime = new FakeRuntime();
    const create = runtime.create.bind(runtime);
    const unwritten: string[] = [];
    runtime.create = async (spec) => {
      if (!readFileSync(directories.podState, "utf8").includes(spec.id)) unwritten.push(spec.id);
      await create(spec);
    };
    const written = t.mock.method(fs, "renameSync");
    await using worker = agent(directories, new ManualClock());
    await worker.begin(fakeDependencies({ runtime }));
    const containers = Array.from({ length: 100 }, (_, index) => container(`c${index}`));
    worker.put(desiredPod({ containers }));
    await eventually(() => worker.running().size === 100);
    assert.deepEqual(unwritten, []);
    // It would be two per container if each wrote separately.
    assert.ok(written.mock.callCount() < 100, `${written.mock.callCount()} writes`);
  });
});
