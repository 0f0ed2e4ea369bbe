#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1 with XStream 1.4.21 and Jettison 1.5.4. A STOMP consumer that asks for MapMessages as JSON
# (`transformation:jms-map-json`) gets no JSON object with the map's keys, but types and texts; "entry" is an object for
# a map of one entry and a list for one of two. An empty map is a string in the place of an object.
set -euo pipefail
stated='0 entries: {"map":""}
1 entries: {"map":{"entry":{"string":["city","Bern"]}}}
2 entries: {"map":{"entry":[{"string":["city","Bern"]},{"string":"n","int":2}]}}'

source "$(dirname "$0")/lib/activemq.sh"
start_activemq com.thoughtworks.xstream:xstream:1.4.21 org.codehaus.jettison:jettison:1.5.4
cat >"$work/Send.java" <<'JAVA'
public class Send {
    public static void main(String[] arguments) throws Exception {
        try (var context = new org.apache.activemq.ActiveMQConnectionFactory(arguments[0]).createContext()) {
            var message = context.createMapMessage();
            var places = context.createQueue("places");
            context.createProducer().send(places, message);
            message.setString("city", "Bern");
            context.createProducer().send(places, message);
            message.setInt("n", 2);
            context.createProducer().send(places, message);
        }
    }
}
JAVA
timeout 60 java -cp "$activemq_libraries/*" "$work/Send.java" "tcp://127.0.0.1:$openwire"
as_stated "$stomp" <<'PY'
import sys
from wire import Wire

wire = Wire(sys.argv[1])
wire.subscribe("/queue/places", transformation="jms-map-json")
for entries in range(3):
    print(f"{entries} entries:", wire.body())
PY
