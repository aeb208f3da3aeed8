import { CodedError } from "@kip/base";

/** What can go wrong while a machine becomes a template, or a copy of one. */
export type ItzoErrorCode =
  /** A copy could not get its random numbers, time or network. */
  | "BECOME_FAILED"
  /** The agent ended while it made a machine of the template's copy. */
  | "PERSONALITY_LOST"
  /** The template has no port for its copies' identities. */
  | "PERSONALITY_PORT_MISSING"
  /** The images that the copies were to have could not be fetched. */
  | "TEMPLATE_IMAGES_FAILED";

/** A failure of the program on a cell; the agent's own are `AgentError`. */
export class ItzoError extends CodedError<ItzoErrorCode> {
  override readonly name = "ItzoError";
}
