# start_artemis: Apache Artemis 2.56.0 as `artemis create` sets it up, with one port ($port) for all its protocols.
# User and password are "u". Its libraries, those for JMS clients among them, are in $artemis_libraries. Arguments are
# sed's, and change broker.xml.
# For several brokers: fetch_artemis once, then `artemis_node NAME PORT` for each, with the same arguments behind.

[ -n "${work:-}" ] || source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start_artemis() {
    fetch_artemis
    port="$(free_ports 1)"
    artemis_node instance "$port" "$@"
}

fetch_artemis() {
    local version=2.56.0
    maven org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory="$work/download" \
        -Dartifact="org.apache.artemis:apache-artemis:$version:tar.gz:bin"
    tar -xzf "$work/download/"*.tar.gz -C "$work"
    rm -r "$work/download"
    artemis_home="$work/apache-artemis-$version"
    artemis_libraries="$artemis_home/lib"
    echo "Apache Artemis $version"
}

artemis_node() {
    local name="$1" port="$2" change
    shift 2
    "$artemis_home/bin/artemis" create --silent --no-autotune --no-web --host 127.0.0.1 --name "$name" \
        --default-port "$port" --no-amqp-acceptor --no-hornetq-acceptor --no-mqtt-acceptor --no-stomp-acceptor \
        --user u --password u --require-login "$work/$name" >"$work/create.log" 2>&1
    for change in "$@"; do sed -i "$change" "$work/$name/etc/broker.xml"; done
    JAVA_ARGS="-Xmx512m -XX:+UseSerialGC --add-opens=java.base/jdk.internal.misc=ALL-UNNAMED" \
        "$work/$name/bin/artemis" run >"$work/$name.log" 2>&1 &
    started+=($!)
    wait_for_port "$port" 120
}
