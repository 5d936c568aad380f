// Entry point of the platform's process: checks the version of Node, then runs the platform until a
// signal stops it. It imports the rest only after the check, so that a Node that is too old for it
// still shows a useful message.
const majorMin = 24;

const major = Number(process.versions.node.split(".")[0]);
if (major < majorMin) {
  process.stderr.write(
    `Slipway needs Node ${majorMin} or newer, but this is Node ${process.versions.node}. ` +
      `Start it with \`npm start\` in the project's folder: it brings the right one.\n`,
  );
  process.exit(1);
}
const { runPlatform } = await import("./run-platform.ts");
process.exitCode = await runPlatform(process.argv.slice(2));
