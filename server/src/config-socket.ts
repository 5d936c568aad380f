// The listening socket that the platform is started with, by the protocol of systemd: LISTEN_FDS
// and LISTEN_PID in the environment, and the socket at descriptor 3. Whoever started the platform
// keeps the socket, so that connections wait while no platform runs.

/** The first descriptor that the protocol passes on. */
const firstDescriptor = 3;

type SocketParts = {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  /** Throws an error with this message. */
  readonly refuse: (why: string) => never;
};

/** The descriptor of the socket; null: there is none, or it was for another process. */
export function readInheritedSocket({ environment, pid, refuse }: SocketParts): number | null {
  const { LISTEN_PID, LISTEN_FDS = "" } = environment;
  if (LISTEN_PID !== String(pid)) return null;
  if (LISTEN_FDS !== "1")
    refuse(
      `LISTEN_FDS is ${JSON.stringify(LISTEN_FDS)}, but the platform takes one listening socket: 1. With systemd, let slipway.socket have one ListenStream= only.`,
    );
  return firstDescriptor;
}
