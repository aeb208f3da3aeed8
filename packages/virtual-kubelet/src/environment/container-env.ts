import { errorText, isCodedError } from "@kip/base";
import type { Container, EnvVar, EphemeralContainer, FileKeySelector, Pod } from "@kip/k8s-types";
import { VirtualKubeletError } from "../errors.ts";
import { ContentBudget, entryBytes } from "../references/content-budget.ts";
import {
  absent,
  nameOf,
  reference,
  unresolved,
  type Notify,
  type Reference,
  type ReferencedContent,
  type ReferenceReader,
} from "../references/reference.ts";
import {
  expandExcept,
  expandVariables,
  ExpansionBudget,
  refersTo,
  type VariableLookup,
} from "./expand-variables.ts";
import { fieldValue, lateFields } from "./field-reference.ts";
import { containerNamed, resourceValue, withPodLimits } from "./resource-reference.ts";

/** Sources of the values in a container's environment. */
export interface EnvSources {
  readonly pod: Pod;
  readonly references: ReferenceReader;
  /** From `serviceVariables`. */
  readonly services: ReadonlyMap<string, string>;
  /** The node's resources for pods, for limits that are not set. */
  readonly allocatable: Readonly<Record<string, string>>;
  readonly notify: Notify;
  /** Whether the provider reads values from files of the pod. @default false */
  readonly readsFiles?: boolean | undefined;
  /** Shared by all containers and volumes of the pod. @default a separate one */
  readonly budget?: ContentBudget | undefined;
}

/** A container's environment. */
export interface ContainerEnv {
  /**
   * In order: `envFrom`, `env`, services. Late variables, and those that refer to them, are empty here. A variable from an optional
   * file may follow an entry of the same name, which holds if the file has no value. Otherwise each name is there once.
   */
  readonly env: readonly { readonly name: string; readonly value: string }[];
  /** Variable → field path, for fields whose values are known only with the pod's addresses. */
  readonly late: ReadonlyMap<string, string>;
  /** Variable → text with `$(LATE)` references, for values that refer to late variables. */
  readonly lateTemplates: ReadonlyMap<string, string>;
  /**
   * Variable → files of the pod, of which the last one with a value has it when the container starts. The last entry of this name
   * in `env` is empty.
   */
  readonly files: ReadonlyMap<string, readonly FileKeySelector[]>;
}

/**
 * Resolves a container's environment as the kubelet does. First `envFrom` in order (later sources override earlier ones), then
 * `env` in order, with `$(VAR)` expanded from earlier variables and those of services, and finally service variables with
 * unused names.
 *
 * @throws {VirtualKubeletError} code `VK_UNRESOLVED` if a mandatory object or key is missing or unreadable
 */
export async function containerEnv(
  container: Container | EphemeralContainer,
  sources: EnvSources,
): Promise<ContainerEnv> {
  const state: EnvState = {
    values: new Map(),
    late: new Map(),
    lateTemplates: new Map(),
    files: new Map(),
    fallbacks: new Set(),
    budget: new ExpansionBudget(),
    podBudget: sources.budget ?? new ContentBudget(),
  };
  try {
    await fill(state, container, sources);
  } catch (error) {
    // Over budget: nothing is missing, but this container cannot be started.
    if (!VirtualKubeletError.is(error, "VK_UNRESOLVED") || error.container !== undefined)
      throw error;
    throw unresolved(error.message, container.name);
  }
  return {
    env: [...state.values].flatMap(([name, value]) =>
      state.fallbacks.has(name)
        ? [
            { name, value },
            { name, value: "" },
          ]
        : { name, value },
    ),
    late: state.late,
    lateTemplates: state.lateTemplates,
    files: state.files,
  };
}

async function fill(
  state: EnvState,
  container: Container | EphemeralContainer,
  sources: EnvSources,
): Promise<void> {
  await addSources(state, container, sources);
  for (const variable of container.env ?? []) {
    await addVariable(state, container, { variable, sources });
  }
  // Containers share the texts, but each has its own entries.
  state.podBudget.takeAll(sources.services.size, entryBytes);
  for (const [name, value] of sources.services) {
    if (!state.values.has(name)) state.values.set(name, value);
  }
}

interface EnvState {
  readonly values: Map<string, string>;
  readonly late: Map<string, string>;
  readonly lateTemplates: Map<string, string>;
  readonly files: Map<string, FileKeySelector[]>;
  /** Variables from files whose entry in `values` holds if the file has no value. */
  readonly fallbacks: Set<string>;
  readonly budget: ExpansionBudget;
  readonly podBudget: ContentBudget;
}

async function addSources(
  state: EnvState,
  container: Container | EphemeralContainer,
  sources: EnvSources,
): Promise<void> {
  for (const source of container.envFrom ?? []) {
    const { prefix = "" } = source;
    const selector = source.configMapRef ?? source.secretRef;
    if (!selector) continue;
    const object = reference(source.configMapRef ? "ConfigMap" : "Secret", selector);
    const access = { reference: object, optional: selector.optional === true, container, sources };
    const content = await readContent(access);
    const skipped: string[] = [];
    for (const [key, value] of [...(content?.text ?? [])].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const name = `${prefix}${key}`;
      if (isVariableName(name)) {
        state.podBudget.takeOwnEntry(prefix === "" ? 0 : name.length);
        put(state, name, state.budget.take(value));
      } else {
        state.podBudget.take(name.length);
        skipped.push(name);
      }
    }
    if (skipped.length > 0) {
      sources.notify({
        type: "Warning",
        reason: "InvalidEnvironmentVariableNames",
        message: `Keys [${skipped.join(", ")}] of ${nameOf(object)} in namespace "${sources.pod.metadata.namespace}" were skipped: they are not valid names of environment variables`,
      });
    }
  }
}

interface VariableContext {
  readonly variable: EnvVar;
  readonly sources: EnvSources;
}

async function addVariable(
  state: EnvState,
  container: Container | EphemeralContainer,
  context: VariableContext,
): Promise<void> {
  const { variable, sources } = context;
  const from = variable.valueFrom;
  if (!from) return addLiteral(state, variable, sources.services);
  if (from.fileKeyRef && sources.readsFiles === true) {
    checkFile(from.fileKeyRef, container, sources.pod);
    return addFile(state, variable.name, { file: from.fileKeyRef, services: sources.services });
  }
  if (from.fieldRef && lateFields.includes(from.fieldRef.fieldPath)) {
    put(state, variable.name, "");
    state.late.set(variable.name, from.fieldRef.fieldPath);
    return;
  }
  const value = await referencedValue(container, context);
  if (value === undefined) return;
  if (from.fieldRef) state.podBudget.takeOwn(value);
  put(state, variable.name, state.budget.take(value));
}

/** As in the kubelet, a variable keeps the value it has if an optional file has none. */
function addFile(
  state: EnvState,
  name: string,
  context: { readonly file: FileKeySelector; readonly services: ReadonlyMap<string, string> },
): void {
  const { file, services } = context;
  const before = file.optional === true ? state.files.get(name) : undefined;
  const earlier = state.values.get(name) ?? services.get(name);
  if (file.optional !== true || earlier === undefined) put(state, name, "");
  else {
    state.podBudget.take(name.length);
    if (!before) {
      state.values.set(name, earlier);
      state.fallbacks.add(name);
    }
  }
  if (before) before.push(file);
  else state.files.set(name, [file]);
}

function addLiteral(
  state: EnvState,
  { name, value = "" }: EnvVar,
  services: ReadonlyMap<string, string>,
): void {
  if (!value.includes("$")) return put(state, name, value);
  // Variables of the container override those of services.
  const lookUp: VariableLookup = (variable) => state.values.get(variable) ?? services.get(variable);
  const isLate = (variable: string): boolean =>
    state.late.has(variable) || state.lateTemplates.has(variable) || state.files.has(variable);
  if (refersTo(value, isLate)) {
    const template = expandExcept(value, lookUp, { isLate, budget: state.budget });
    put(state, name, "");
    state.podBudget.take(template.length);
    state.podBudget.takeOwn(template);
    state.lateTemplates.set(name, template);
    return;
  }
  put(state, name, state.podBudget.takeOwn(expandVariables(value, lookUp, state.budget)));
}

/** Sets a variable. The last value counts. */
function put(state: EnvState, name: string, value: string): void {
  state.podBudget.take(name.length + value.length);
  state.values.set(name, value);
  state.late.delete(name);
  state.lateTemplates.delete(name);
  state.files.delete(name);
  state.fallbacks.delete(name);
}

/** Checks a reference to a file, with the kubelet's messages. */
function checkFile(
  { key, volumeName }: FileKeySelector,
  { name }: Container | EphemeralContainer,
  { spec }: Pod,
): void {
  if (!volumeNames(spec).has(volumeName))
    throw unresolved(`cannot find the volume "${volumeName}" referenced by FileKeyRef`, name);
  if (key.length > maxFileKey) {
    const message = `environment variable key "${key}" exceeds maximum length of ${maxFileKey} characters`;
    throw unresolved(message, name);
  }
}

const maxFileKey = 128;

/** Cached, because a pod may have thousands of volumes and as many variables from files. */
const volumesByPod = new WeakMap<Pod["spec"], ReadonlySet<string>>();

function volumeNames(spec: Pod["spec"]): ReadonlySet<string> {
  const names = volumesByPod.get(spec) ?? new Set(spec.volumes?.map(({ name }) => name));
  volumesByPod.set(spec, names);
  return names;
}

async function referencedValue(
  container: Container | EphemeralContainer,
  { variable, sources }: VariableContext,
): Promise<string | undefined> {
  const { configMapKeyRef, secretKeyRef, fieldRef, resourceFieldRef } = variable.valueFrom ?? {};
  const selector = configMapKeyRef ?? secretKeyRef;
  if (selector) {
    const object = reference(configMapKeyRef ? "ConfigMap" : "Secret", selector);
    const access = { reference: object, optional: selector.optional === true, container, sources };
    return readKey(access, selector.key);
  }
  if (fieldRef) {
    const value = fieldValue(sources.pod, fieldRef.fieldPath);
    if (value === undefined)
      throw unresolved(`unsupported fieldPath: ${fieldRef.fieldPath}`, container.name);
    return value;
  }
  if (resourceFieldRef) {
    const other = containerNamed(sources.pod, resourceFieldRef.containerName ?? container.name);
    const open = withPodLimits(sources.pod, sources.allocatable);
    const value = resourceValue(other ?? container, resourceFieldRef, open);
    if (value === undefined) {
      const message = `unsupported container resource: ${resourceFieldRef.resource}`;
      throw unresolved(message, container.name);
    }
    return value;
  }
  const [source = "nothing"] = Object.keys(variable.valueFrom ?? {});
  throw unresolved(
    `variable "${variable.name}" takes its value from ${source}, which this node does not support`,
    container.name,
  );
}

interface Access {
  readonly reference: Reference;
  readonly optional: boolean;
  readonly container: Container | EphemeralContainer;
  readonly sources: EnvSources;
}

async function readKey(access: Access, key: string): Promise<string | undefined> {
  const content = await readContent(access);
  if (!content) return undefined;
  const value = content.text.get(key);
  if (value !== undefined) return value;
  const { reference, sources } = access;
  const namespace = sources.pod.metadata.namespace;
  const message = `couldn't find key ${key} in ${reference.kind} ${namespace}/${reference.name}`;
  return missing(access, `${reference.kind}KeyNotFound`, message);
}

async function readContent(access: Access): Promise<ReferencedContent | undefined> {
  const { reference, sources } = access;
  let content: ReferencedContent | undefined;
  try {
    content = await sources.references.read(reference);
  } catch (error) {
    if (!isCodedError(error)) throw error;
    const message = `${nameOf(reference)} could not be read: ${errorText(error)}`;
    // It is not certain that an optional object is missing.
    return missing(access, "", message, error.retryable);
  }
  if (content) return content;
  return missing(access, `${reference.kind}NotFound`, `${nameOf(reference)} not found`);
}

/** Records an event. Returns if the object is optional and certainly missing, and throws otherwise. */
function missing(access: Access, what: string, message: string, mustWait = false): undefined {
  const { reference, optional, container, sources } = access;
  const demand = optional ? "Optional" : "Mandatory";
  const reason = what === "" ? `FailedToRead${demand}${reference.kind}` : `${demand}${what}`;
  sources.notify({
    type: "Warning",
    reason,
    message,
    fieldPath: fieldPathOf(sources.pod, container),
  });
  if (optional && !mustWait) return undefined;
  throw what === "" ? unresolved(message, container.name) : absent(message, container.name);
}

function fieldPathOf(pod: Pod, { name }: Container | EphemeralContainer): string {
  const lists = ["initContainers", "containers", "ephemeralContainers"] as const;
  const list = lists.find((each) => pod.spec[each]?.some((container) => container.name === name));
  return `spec.${list ?? "containers"}{${name}}`;
}

/**
 * Whether a name is valid for a container's variable: printable ASCII without "=". This is the rule since Kubernetes 1.34.
 * Before, names were C identifiers with dots and dashes.
 */
function isVariableName(name: string): boolean {
  return /^[\x20-\x3c\x3e-\x7e]+$/.test(name);
}
