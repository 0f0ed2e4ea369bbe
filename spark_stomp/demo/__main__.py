"""``python -m spark_stomp.demo``."""

import sys

from spark_stomp.demo.app import main

if __name__ == "__main__":
    sys.exit(main())
