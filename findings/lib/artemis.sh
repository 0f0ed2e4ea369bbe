# start_artemis: Apache Artemis 2.56.0 as `artemis create` sets it up, with one port ($port) for all its protocols.
# User and password are "u".

[ -n "${work:-}" ] || source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start_artemis() {
    local version=2.56.0
    maven org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory="$work/download" \
        -Dartifact="org.apache.artemis:apache-artemis:$version:tar.gz:bin"
    tar -xzf "$work/download/"*.tar.gz -C "$work"
    rm -r "$work/download"
    port="$(free_ports 1)"
    "$work/apache-artemis-$version/bin/artemis" create --silent --no-autotune --no-web --host 127.0.0.1 \
        --default-port "$port" --no-amqp-acceptor --no-hornetq-acceptor --no-mqtt-acceptor --no-stomp-acceptor \
        --user u --password u --require-login "$work/instance" >"$work/create.log" 2>&1
    JAVA_ARGS="-Xmx512m -XX:+UseSerialGC --add-opens=java.base/jdk.internal.misc=ALL-UNNAMED" \
        "$work/instance/bin/artemis" run >"$work/artemis.log" 2>&1 &
    started+=($!)
    wait_for_port "$port" 120
    echo "Apache Artemis $version"
}
