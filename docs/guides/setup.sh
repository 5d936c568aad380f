# What the guides begin with: `. docs/guides/setup.sh`, in Slipway's folder. It reads the file that the
# first start of the platform wrote, and defines short commands for curl.

# A value of that file, such as the token of the first service account.
value() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$BOOTSTRAP"; }

BOOTSTRAP=${SLIPWAY_DATA_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")/../.." && pwd)/.slipway}/bootstrap.json
if [ -r "$BOOTSTRAP" ]; then
  BASE=$(value baseUrl) PROJECT=$(value projectId) API=$BASE/v2/projects/$PROJECT
  KEY=$(value serviceAccountToken) CALL_KEY=$(value inferenceToken) OPERATOR=$(value operatorToken)
else
  echo "There is no $BOOTSTRAP that you can read. Start the platform first: slipway up" >&2
fi

# A request to the management API: api "$API/apps"
# The token is not among curl's arguments, which other users of the machine can read.
api() {
  curl -sS -w '\n' -H @<(printf 'Authorization: Bearer %s' "$KEY") -H 'Content-Type: application/json' "$@"
}

# The text of a field, from JSON on standard input: api "$API/apps/hello" | field status
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

# Repeats a command until it prints the text (a pattern of grep), and prints that. After two minutes it
# fails, and says what the command printed last: wait_for ACTIVE api "$API/apps/hello"
wait_for() {
  local text=$1 answer found end=$((SECONDS + 120))
  shift
  until answer=$("$@" 2>&1); found=$(grep -o -m 1 -- "$text" <<< "$answer"); do
    if [ "$SECONDS" -ge "$end" ]; then
      printf 'Two minutes went by without %s. The last answer was: %s\n' "$text" "$answer" >&2
      return 1
    fi
    sleep 0.2
  done
  echo "${found%%$'\n'*}"
}
