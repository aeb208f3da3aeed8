import { CodedError } from "@kip/base";

/** Failures while a machine becomes a template, or while a clone gets its identity. */
export type ItzoErrorCode =
  /** A clone could not get its random numbers, time or network. */
  | "BECOME_FAILED"
  /** The agent ended while it applied a clone's identity. */
  | "PERSONALITY_LOST"
  /** The template has no port on which its clones get their identities. */
  | "PERSONALITY_PORT_MISSING"
  /** The images for the clones could not be fetched. */
  | "TEMPLATE_IMAGES_FAILED";

/** Failures of the program itzo. Those of the agent are `AgentError`. */
export class ItzoError extends CodedError<ItzoErrorCode> {
  override readonly name = "ItzoError";
}
