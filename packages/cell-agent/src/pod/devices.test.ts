import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

const resource = "example.com/card";

describe("AgentWorker, with a pod that has devices", () => {
  it("gives a container the same again, whatever the cell has by then and however often its agent ended", async () => {
    using folder = temporaryFolder();
    const directories = agentDirectories(`${folder.path}/state`, `${folder.path}/run`);
    const runtime = new FakeRuntime();
    let cards = ["0", "1", "2"];
    const clock = new ManualClock();
    const dependencies = {
      ...fakeDependencies({ runtime }),
      cdiDevices: async () => {
        const card = (name: string) => ({ name, id: name, edits: [{ env: [`CARD=${name}`] }] });
        return new Map([[resource, cards.map(card)]]);
      },
    };
    const begin = async (): Promise<AgentWorker> => {
      const worker = new AgentWorker({
        directories,
        clock,
        logger: silentLogger,
        onChange: () => {},
      });
      await worker.begin(dependencies);
      return worker;
    };
    const cardsOf = (name: string): readonly (string | undefined)[] =>
      [...runtime.specs.values()]
        .filter(({ labels }) => labels?.["container"] === name)
        .map(({ env }) => env.find((each) => each.startsWith("CARD=")));

    let worker = await begin();
    const extendedResources = [{ resource, count: 1 }];
    const containers = ["a", "b"].map((name) => container(name, { extendedResources }));
    // Every object has a property with this name.
    const plain = container("constructor");
    worker.put(desiredPod({ containers: [...containers, plain] }));
    await eventually(
      () => runtime.calls.includes("start b") && runtime.calls.includes("start constructor"),
    );
    assert.deepEqual([cardsOf("a"), cardsOf("b")], [["CARD=0"], ["CARD=1"]]);
    await worker[Symbol.asyncDispose]();
    worker = await begin();
    cards = ["1", "2"];
    runtime.exit("b", 1);
    await eventually(() => cardsOf("b").length === 2);
    assert.deepEqual(cardsOf("b"), ["CARD=1", "CARD=1"]);
    runtime.exit("constructor", 1);
    await eventually(
      () => runtime.calls.filter((call) => call === "start constructor").length === 2,
    );
    runtime.exit("a", 1);
    const waiting = () => worker.report()?.containers.find(({ name }) => name === "a")?.waiting;
    await eventually(() => waiting()?.reason === "CreateContainerError");
    assert.equal(waiting()?.message, "device example.com/card=0 is gone");
    await worker[Symbol.asyncDispose]();
  });
});
