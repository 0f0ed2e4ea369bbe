"""Runs the cases, or those whose names contain an argument, and prints a table of what came of them.

``--write`` puts it into README.md beside this file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hostile import CASES
from hostile.case import Result

PAGE = Path(__file__).parent / "README.md"
_BEGIN = "<!-- the table; by python -m hostile --write -->\n"


def line(result: Result) -> str:
    # Of an error only its code: docs/reference.md says what it means.
    code = re.match(r"\[(STOMP_\w+)\]", result.outcome)
    outcome = f"`{code[1]}`" if code else result.outcome.replace("|", "\\|")
    return f"| {result.name} | {outcome} | {result.seconds:.1f} s | {result.peak / (1 << 20):.0f} MiB |"


def main(arguments: list[str]) -> int:
    wanted = [one for one in arguments if one != "--write"]
    lines, failed = ["| case | outcome | time | memory |", "|---|---|---:|---:|"], 0
    for case in CASES:
        if not wanted or any(part in case.name for part in wanted):
            result = case.run()
            failed += bool(result.faults)
            lines.append(line(result))
            faults = "".join(f"\n    {fault}" for fault in result.faults)
            sys.stdout.write(f"{lines[-1]}{faults}\n")
            sys.stdout.flush()
    if "--write" in arguments:
        text = PAGE.read_text(encoding="utf-8").partition(_BEGIN)[0]
        PAGE.write_text(text + _BEGIN + "\n".join(lines) + "\n", encoding="utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
