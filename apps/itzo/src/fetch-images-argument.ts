/** Argument with which this program fetches images instead of running the agent. */
export const fetchImagesArgument = "fetch-images";
