import { CodedError } from "@kip/base";

/** Several images were asked for, and some failed. The code is that of the first failure, its cause. */
export class SomeImagesFailedError extends CodedError {
  override readonly name = "SomeImagesFailedError";
}
