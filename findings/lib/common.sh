# For every finding: a folder that goes away at the end, processes that end with it, free ports, packages.
# It is sourced with `set -euo pipefail` in force.

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
started=()
python=python3
export PYTHONPATH="$here" PYTHONDONTWRITEBYTECODE=1

clean_up() {
    local status=$? pid
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${started[@]}"; do
        for _ in {1..100}; do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
    [ "$status" -eq 0 ] || echo "not as stated, exit $status" >&2
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# as_stated ARGUMENTS...: runs the Python program on standard input, and shows its output, which has to be $stated.
as_stated() {
    local seen
    seen="$(timeout 180 "$python" - "$@" 2>"$work/errors")" || { echo "$seen"; cat "$work/errors" >&2; return 1; }
    echo "$seen"
    [ "$seen" = "$stated" ] || { printf 'stated is:\n%s\n' "$stated" >&2; return 1; }
}

# free_ports N: N ports of 127.0.0.1 that nobody listens on.
free_ports() {
    python3 - "$1" <<'PY'
import socket, sys
taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(one.getsockname()[1] for one in taken))
PY
}

# wait_for_port PORT SECONDS: until somebody listens there.
wait_for_port() {
    local end=$((SECONDS + $2))
    until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
        [ "$SECONDS" -lt "$end" ] || { echo "nobody listens on port $1 after $2 s" >&2; return 1; }
        sleep 0.2
    done
}

# python_with PACKAGE==VERSION...: makes $python, an interpreter that has them.
python_with() {
    python3 -m venv "$work/venv"
    python="$work/venv/bin/python"
    timeout 300 "$python" -m pip --quiet --disable-pip-version-check install "$@"
}

# maven ARGUMENTS...: quiet unless it fails.
maven() {
    timeout 300 mvn --batch-mode "$@" >"$work/maven.log" 2>&1 || { cat "$work/maven.log" >&2; return 1; }
}

# maven_libraries FOLDER GROUP:ARTIFACT:VERSION...: the artifacts, with all that they depend on.
maven_libraries() {
    local folder="$1" one group artifact version
    shift
    mkdir -p "$folder"
    {
        echo "<project><modelVersion>4.0.0</modelVersion><groupId>finding</groupId><artifactId>finding</artifactId>"
        echo "<version>1</version><packaging>pom</packaging><dependencies>"
        for one in "$@"; do
            IFS=: read -r group artifact version <<<"$one"
            printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n' \
                "$group" "$artifact" "$version"
        done
        echo "</dependencies></project>"
    } >"$folder/pom.xml"
    maven -f "$folder/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
        -DoutputDirectory="$folder"
}
