# start_openmq: Open MQ 6.5.0 with its STOMP bridge on $port. User and password are "guest", as its own files have it.

[ -n "${work:-}" ] || source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start_openmq() {
    local version=6.5.0 native end
    maven org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory="$work/download" \
        -Dartifact="org.glassfish.mq:mq-distribution:$version:zip"
    python3 -m zipfile -e "$work/download/"*.zip "$work"
    rm -r "$work/download"
    read -r native port <<<"$(free_ports 2)"
    echo "imq.bridge.admin.password=admin" >"$work/passwords"
    mkdir "$work/openmq"
    java -Xmx256m -XX:+UseSerialGC -Dimq.home="$work/mq" -Dimq.libhome="$work/mq/lib" -Dimq.varhome="$work/openmq" \
        -Dimq.etchome="$work/mq/etc" -cp "$work/mq/lib/imqbroker.jar:$work/mq/lib/*" \
        com.sun.messaging.jmq.jmsserver.Broker -name finding -port "$native" -passfile "$work/passwords" \
        -Dimq.hostname=127.0.0.1 -Dimq.bridge.enabled=true -Dimq.bridge.activelist=stomp \
        -Dimq.bridge.admin.user=admin -Dimq.bridge.stomp.hostname=127.0.0.1 \
        -Dimq.bridge.stomp.tcp.port="$port" >"$work/openmq.log" 2>&1 &
    started+=($!)
    # The port listens, and closes connections, before the bridge is up.
    end=$((SECONDS + 120))
    until grep -qs "Bridge service manager started" "$work/openmq/instances/finding/log/log.txt"; do
        [ "$SECONDS" -lt "$end" ] || { cat "$work/openmq.log" >&2; return 1; }
        sleep 0.2
    done
    echo "Open MQ $version"
}
