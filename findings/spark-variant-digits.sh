#!/usr/bin/env bash
# PySpark 4.3.0: a VARIANT keeps a number of up to 38 digits digit by digit. In Python, VariantVal.toPython and toJson give
# it with 28 digits only, as the context of the module decimal says, and without a word; with a context of 38 digits it is whole.
set -euo pipefail
stated="\
the number: 12345678901234567890123456789.25
toPython: 12345678901234567890123456790
toJson: 1.234567890123456789012345679E+28
toPython, context of 38 digits: 12345678901234567890123456789.25"

source "$(dirname "$0")/lib/common.sh"
python_with pyspark==4.3.0
echo "PySpark 4.3.0"
as_stated <<'PY'
from decimal import localcontext

from pyspark.sql.types import VariantVal

number = "12345678901234567890123456789.25"
value = VariantVal.parseJson(number)
print("the number:", number)
print("toPython:", f"{value.toPython():f}")
print("toJson:", value.toJson())
with localcontext() as context:
    context.prec = 38
    print("toPython, context of 38 digits:", f"{value.toPython():f}")
PY
