// The end of the platform's own log, for a person whose platform did not start or stop.
import { fieldsOf, textOrNull } from "./answer.ts";
import { plainLines } from "./plain-text.ts";

const linesMax = 15;

/**
 * The last lines of the log. Of a line in JSON, the message, the message of its error, and the
 * other fields but time and level.
 */
export function lastLogLines(log: string): string {
  return plainLines(log.trimEnd().split("\n").slice(-linesMax).map(readable).join("\n"));
}

function readable(line: string): string {
  if (!line.startsWith("{")) return line;
  try {
    const fields = fieldsOf(JSON.parse(line));
    const { level: _level, time: _time, msg: _msg, err, ...others } = fields;
    const error = err === undefined ? null : textOrNull(fieldsOf(err), "message");
    const details = Object.keys(others).length === 0 ? null : JSON.stringify(others);
    return [textOrNull(fields, "msg"), error, details].filter((part) => part !== null).join(" ");
  } catch {
    // A line of another program, or the rest of one.
    return line;
  }
}
