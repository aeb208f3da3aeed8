import { readFileSync } from "node:fs";
import { release } from "node:os";
import type { AgentInfo } from "@kip/agent-api";
import { isSystemError } from "@kip/base";

/** The facts about the agent and its machine that do not depend on how it was started. */
export function agentFacts(): Pick<
  AgentInfo,
  "apiVersion" | "kernelVersion" | "osImage" | "runtimeVersion" | "bootId"
> {
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8");
  return {
    apiVersion: "v1",
    kernelVersion: release(),
    osImage: osName(),
    runtimeVersion: "crun",
    bootId: bootId.trim(),
  };
}

function osName(): string {
  try {
    const text = readFileSync("/etc/os-release", "utf8");
    return /^PRETTY_NAME="?([^"\n]*)/m.exec(text)?.[1] ?? "Linux";
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return "Linux";
    throw error;
  }
}
