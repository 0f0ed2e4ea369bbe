#!/usr/bin/env bash
# @stomp/stompjs 7.5.0 (npm). What it writes it does not read back: a header value with a backslash before n, r or c is
# escaped as STOMP 1.2 says, but unescaped one kind of escape after the other, so a line break or a colon takes the
# letter's place. Spaces at the ends of a value are cut, though 1.2 makes them part of it.
set -euo pipefail
stated='"\\new" is written as \\new and read as "\\\new"
"\\cat" is written as \\cat and read as "\\:at"
"\\dog" is written as \\dog and read as "\\dog"
" padded " is written as  padded  and read as "padded"'

source "$(dirname "$0")/lib/common.sh"
(cd "$work" && timeout 300 npm install --silent --no-audit --no-fund --ignore-scripts @stomp/stompjs@7.5.0 >npm.log 2>&1)
cat >"$work/program.mjs" <<'JS'
import { FrameImpl, Parser } from '@stomp/stompjs';

for (const value of ['\\new', '\\cat', '\\dog', ' padded ']) {
    const written = FrameImpl.marshall({ command: 'MESSAGE', headers: { value }, body: '', escapeHeaderValues: true });
    const header = written.split('\n').find((line) => line.startsWith('value:')).slice('value:'.length);
    let read;
    new Parser((frame) => { read = FrameImpl.fromRawFrame(frame, true).headers.value; }).parseChunk(written);
    console.log(`${JSON.stringify(value)} is written as ${header} and read as ${JSON.stringify(read)}`);
}
JS
work="$work" as_stated <<'PY'
import os, subprocess
print(subprocess.run(["node", os.environ["work"] + "/program.mjs"], capture_output=True, text=True).stdout, end="")
PY
