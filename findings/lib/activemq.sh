# start_activemq: Apache ActiveMQ Classic 6.3.1 with the connectors stomp, openwire, amqp and mqtt, each without
# options, on $stomp, $openwire, $amqp and $mqtt. It asks for no login and keeps nothing on disk. Its libraries, those
# for JMS clients among them, are in $activemq_libraries; arguments are more of them. $activemq_setup may be statements
# in Java, for its BrokerService `broker` before it starts.

[ -n "${work:-}" ] || source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start_activemq() {
    local version=6.3.1 group=org.apache.activemq
    activemq_libraries="$work/activemq"
    maven_libraries "$activemq_libraries" "$group:activemq-broker:$version" "$group:activemq-stomp:$version" \
        "$group:activemq-amqp:$version" "$group:activemq-mqtt:$version" "$@" org.slf4j:slf4j-nop:2.0.18
    read -r stomp openwire amqp mqtt <<<"$(free_ports 4)"
    cat >"$work/Broker.java" <<JAVA
public class Broker {
    public static void main(String[] connectors) throws Exception {
        var broker = new org.apache.activemq.broker.BrokerService();
        broker.setPersistent(false);
        broker.setUseJmx(false);
        ${activemq_setup:-}
        for (String connector : connectors) broker.addConnector(connector);
        broker.start();
        broker.waitUntilStopped();
    }
}
JAVA
    java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$activemq_libraries/*" "$work/Broker.java" \
        "tcp://127.0.0.1:$openwire" "amqp://127.0.0.1:$amqp" "mqtt://127.0.0.1:$mqtt" "stomp://127.0.0.1:$stomp" \
        >"$work/activemq.log" 2>&1 &
    started+=($!)
    wait_for_port "$stomp" 120
    echo "Apache ActiveMQ Classic $version"
}
