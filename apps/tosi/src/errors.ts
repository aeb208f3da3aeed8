import { CodedError } from "@kip/base";

/** Thrown if some of several images failed. It has the code of the first failure, which is its cause. */
export class SomeImagesFailedError extends CodedError {
  override readonly name = "SomeImagesFailedError";
}
