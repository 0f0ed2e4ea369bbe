"""``python -m spark_stomp`` is the command ``spark-stomp``."""

from __future__ import annotations

import sys

from spark_stomp.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
