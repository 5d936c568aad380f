// Explains in a sentence for the app's owner why the engine did not start a container.
import { buildAgain } from "@slipway/contract/advice.ts";
import { StartRefused, type ReplicaSpec } from "#drivers/driver.ts";
import { engineStatus, isUnreachable } from "./engine.ts";
import { engineIsDown } from "./engine-outage.ts";
import { errorMessage } from "#lib/error-message.ts";

/** Explains the error of creating or starting a container. */
export function startRefusal(error: unknown, spec: ReplicaSpec): StartRefused {
  if (error instanceof StartRefused) return error;
  const text = errorMessage(error);
  const program = spec.entrypoint[0] ?? "the image's start command";
  const options = { cause: error };
  if (isUnreachable(error))
    return new StartRefused(engineIsDown, { ...options, kind: "no_capacity" });
  // Without a status, the error is the platform's own.
  if (engineStatus(error) === null) {
    const message =
      "The container could not be prepared. The platform's log has the reason for the operator.";
    return new StartRefused(message, { ...options, kind: "no_capacity" });
  }
  if (/no such image/i.test(text))
    return new StartRefused(
      `The image of the build is no longer on this machine: ${buildAgain}.`,
      options,
    );
  if (/could not select device driver/i.test(text))
    return new StartRefused(
      "The Docker engine cannot give GPUs to containers: the operator has to install NVIDIA's container toolkit and restart the engine.",
      options,
    );
  // Without `exec: `, the text may be about a file that an engine lacks while it is just starting.
  if (/exec: .*(?:executable file not found|no such file or directory)/.test(text))
    return new StartRefused(
      `The start command was not found: ${program}. Correct the entrypoint, or add the package that has the command to the dependencies.`,
      options,
    );
  if (/exec: .*permission denied/.test(text))
    return new StartRefused(
      `The start command cannot be executed: ${program}. Make the file executable (git update-index --chmod=+x), or start it with its interpreter.`,
      options,
    );
  if (/no command specified/i.test(text))
    return new StartRefused(
      "The image has no start command: set entrypoint, or CMD in the Dockerfile.",
      options,
    );
  // Happens while the engine starts or stops, for example. A text of the OCI runtime is about this
  // container instead.
  if ((engineStatus(error) ?? 0) >= 500 && !text.includes("OCI runtime"))
    return new StartRefused(
      "The Docker engine has a problem of its own, which the operator has to look at (slipway doctor and the platform's log say what it is).",
      {
        ...options,
        kind: "no_capacity",
      },
    );
  return new StartRefused(
    "The Docker engine refused to start the replica; the platform's log has the reason.",
    options,
  );
}
