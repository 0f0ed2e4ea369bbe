# start_spark: installs PySpark 4.3.0 with what its Python data sources need. Spark runs in the processes of
# the program that as_stated runs.

[ -n "${work:-}" ] || source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start_spark() {
    python_with pyspark==4.3.0 pyarrow==26.0.1
    export PYSPARK_PYTHON="$python" SPARK_LOCAL_IP=127.0.0.1 work
    # Quick to start, as the brokers are.
    export JAVA_TOOL_OPTIONS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    cd "$work"
    echo "PySpark 4.3.0"
}
