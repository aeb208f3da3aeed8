import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isCodedError } from "@kip/base";
import { podWith } from "@kip/k8s-types/testing";
import { podAnnotations } from "./pod-annotations.ts";
import {
  annotationsWithoutEffect,
  cellConstraints,
  unreachableLimitOf,
} from "./read-annotations.ts";

const podOf = (annotations: Readonly<Record<string, string>>) =>
  podWith({ metadata: { annotations } });
const withName = (name: string, text: string) => podOf({ [`pod.elotl.co/${name}`]: text });

function problem(annotations: Readonly<Record<string, string>>): string {
  try {
    cellConstraints(podOf(annotations));
  } catch (error) {
    if (isCodedError(error) && error.code === "ANNOTATION_INVALID") return error.message;
    throw error;
  }
  return assert.fail("it is not refused");
}

describe("cellConstraints()", () => {
  it("asks for an on-demand machine of any type without annotations", () => {
    const { launchTypes, privateIpOnly, ...others } = cellConstraints(
      podOf({ "example.com/x": "1" }),
    );
    assert.deepEqual([launchTypes, privateIpOnly], [["on-demand"], false]);
    assert.ok(Object.values(others).every((each) => each === undefined));
  });

  it("reads booleans as Go's strconv.ParseBool", () => {
    const read = (text: string): boolean =>
      cellConstraints(withName("private-ip-only", text)).privateIpOnly;
    for (const text of ["1", "t", "T", "TRUE", "true", "True"])
      assert.equal(read(text), true, text);
    for (const text of ["0", "f", "F", "FALSE", "false", "False"])
      assert.equal(read(text), false, text);
    for (const text of ["yes", "tRUE", "", " true", "on"]) assert.throws(() => read(text), text);
  });

  it("reads the other values", () => {
    const read = (name: string, text: string) => cellConstraints(withName(name, text));
    assert.equal(read("instance-type", "t3.*").instanceType, "t3.*");
    assert.deepEqual(read("launch-type", "SPOT").launchTypes, ["spot"]);
    assert.deepEqual(read("launch-type", "spot-or-on-demand").launchTypes, ["spot", "on-demand"]);
    assert.equal(read("max-price-per-hour", "0.25").maxPricePerHour, 0.25);
    assert.equal(read("volume-size", "7Gi").rootDiskBytes, 7 * 2 ** 30);
    assert.equal(read("architecture", "arm64").architecture, "arm64");
    assert.equal(read("zone", "us-west1-a").zone, "us-west1-a");
    assert.equal(read("boot-image", "old").bootImage, "old");
    assert.equal(read("instance-profile", "web").instanceProfile, "web");
    const arn = "arn:aws-us-gov:iam::123456789012:instance-profile/pods/web";
    assert.equal(read("instance-profile", arn).instanceProfile, arn);
    const groups = read("security-groups", "sg-1, sg-2,,sg-1 ").securityGroups;
    assert.deepEqual(groups, ["sg-1", "sg-2"]);
    const { routes } = read("cloud-route", " 100.68.0.18/18\t192.168.0.0/16 2001:DB8::/64 ");
    assert.deepEqual(routes, ["100.68.0.0/18", "192.168.0.0/16", "2001:db8::/64"]);
    const mac = { "pod.elotl.co/instance-type": "mac1.metal", "pod.elotl.co/launch-type": "spot" };
    assert.deepEqual(cellConstraints(podOf(mac)).launchTypes, ["dedicated"]);
  });

  it("refuses values of another kind", () => {
    const wrong: readonly (readonly [keyof typeof podAnnotations, readonly string[]])[] = [
      ["instance-type", ["", "x", "t1.micro", "a b", "a".repeat(254)]],
      ["launch-type", ["", "spots", "spot,on-demand", "__proto__"]],
      ["max-price-per-hour", ["", "-1", "cheap", "1e999", "0x1", "$1", "NaN", "Infinity"]],
      ["architecture", ["", "x86_64", "ARM64"]],
      ["zone", ["", "a b", "z".repeat(64)]],
      ["boot-image", ["", "a/b"]],
      ["instance-profile", ["", "a b", "arn:aws:iam::1:instance-profile/web", "x".repeat(129)]],
      ["security-groups", ["sg 1", "sg-1;sg-2", Array.from({ length: 16 }, (_e, i) => i).join()]],
      ["cloud-route", ["", "10.0.0.1", "10.0.0.0/33", "0.0.0.0/0", "::/0 ::1/128", "x"]],
      ["cloud-route", [Array.from({ length: 6 }, (_e, i) => `10.${i}.0.0/16`).join(" ")]],
      ["volume-size", ["", "0", "20", "-1Gi", "much"]],
      ["healthcheck-healthy-timeout", ["", "2m", "1e3", "Infinity"]],
    ];
    for (const [name, texts] of wrong)
      for (const text of texts)
        assert.match(problem({ [`pod.elotl.co/${name}`]: text }), /" is not /, `${name}: ${text}`);
  });

  it("names each misspelt one with the nearest, all at once", () => {
    assert.equal(
      problem({
        "pod.elotl.co/instance-tpye": "t3.nano",
        "pod.elotl.co/private-ip-only": "yes",
        "pods.elotl.co/launch-type": "spot",
      }),
      "Cannot use annotations of this pod: pod.elotl.co/instance-tpye: there is no such annotation (did you mean pod.elotl.co/instance-type?); " +
        'pod.elotl.co/private-ip-only: "yes" is not true or false, as Go\'s ParseBool reads it; ' +
        "pods.elotl.co/launch-type: there is no such annotation (did you mean pod.elotl.co/launch-type?)",
    );
    // The original's other prefixes, and those of others, are not kip's.
    assert.doesNotThrow(() => cellConstraints(podOf({ "service.elotl.co/x": "", zone: "" })));
  });

  it("says how a misspelt one is removed, as the right one beside it does not help", () => {
    const both = {
      "pod.elotl.co/instance-tpye": "t3.nano",
      "pod.elotl.co/instance-type": "t3.nano",
    };
    assert.throws(() => cellConstraints(podOf(both)), {
      code: "ANNOTATION_INVALID",
      remedy: /remove misspelt annotations with kubectl annotate pod NAME ANNOTATION-;/,
    });
  });

  it("says little of many", () => {
    const many = Array.from({ length: 3000 }, (_, n) => [`pod.elotl.co/none-${n}`, "x".repeat(60)]);
    const message = problem(Object.fromEntries(many));
    assert.match(message, /, and 2995 more$/);
    assert.ok(message.length < 1000);
  });
});

describe("annotationsWithoutEffect()", () => {
  it("says so of those that mean nothing here", () => {
    const pod = podOf({
      "pod.elotl.co/security-groups": "sg-1",
      "pod.elotl.co/launch-type": "spot",
      "pod.elotl.co/cloud-route": "10.0.0.0/8",
    });
    const [first = "", second = "", ...others] = annotationsWithoutEffect(pod);
    assert.match(first, /^pod\.elotl\.co\/security-groups has no effect: this cloud has no /);
    assert.match(second, /^pod\.elotl\.co\/cloud-route has no effect: /);
    assert.deepEqual(others, []);
    assert.deepEqual(annotationsWithoutEffect(pod, ["securityGroups"]), [second]);
    assert.deepEqual(annotationsWithoutEffect(pod, ["routes"]), [first]);
  });

  it("covers every annotation of the original", () => {
    const original =
      "instance-type launch-type private-ip-only volume-size security-groups instance-profile healthcheck-healthy-timeout cloud-route image-overlay-rootfs task-execution-role task-role";
    for (const name of original.split(" ")) assert.ok(Object.hasOwn(podAnnotations, name), name);
  });
});

describe("unreachableLimitOf()", () => {
  it("is in milliseconds, without end for 0 or less, and that of others otherwise", () => {
    const read = (text: string) =>
      unreachableLimitOf(withName("healthcheck-healthy-timeout", text));
    assert.deepEqual(["1.5", "0", "-1", "soon"].map(read), [1500, Infinity, Infinity, undefined]);
    assert.equal(unreachableLimitOf(podOf({})), undefined);
  });
});
