/** Argument that makes a process of this program fetch images, instead of being the agent. */
export const fetchImagesArgument = "fetch-images";
